//! Every route of the document, asked by those who must not get anything.

use crate::browser::Browser;
use crate::support::{Gateway, answer};
use deerflow_core::ports::{ThreadQuery, ThreadRepo as _};
use deerflow_core::{JsonMap, ThreadId, UserId};
use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};

/// Routes that are there for everybody. A new one is added here on purpose, or not at all.
const OPEN: [&str; 8] = [
    "/api/v1/auth/setup-status",
    "/api/v1/auth/initialize",
    "/api/v1/auth/register",
    "/api/v1/auth/login/local",
    "/api/v1/auth/logout",
    "/api/v1/auth/providers",
    "/api/v1/auth/oauth/{provider}",
    "/api/v1/auth/callback/{provider}",
];
/// What the first user owns; it must not be in any answer to the second.
const MARK: &str = "mark-of-the-first-user";

/// A route of the document.
struct Route {
    path: String,
    method: Method,
    operation: Value,
}

fn routes() -> (Value, Vec<Route>) {
    let document = serde_json::to_value(deerflow_gateway::document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if let Ok(method) = method.to_uppercase().parse::<Method>()
                && ["get", "post", "put", "patch", "delete"].contains(&method.as_str().to_lowercase().as_str())
            {
                routes.push(Route { path: path.clone(), method, operation: operation.clone() });
            }
        }
    }
    assert!(routes.len() > 10, "{}", routes.len());
    (document, routes)
}

/// Values of the parameters of a path: of something that the first user owns, or that nobody does. `None` for what
/// belongs to no one.
fn value(parameter: &str, owned: bool) -> Option<String> {
    let id = |mine: &str, nobodys: &str| Some(if owned { mine } else { nobodys }.to_owned());
    match parameter {
        "thread_id" => id("owned-thread", "absent-thread"),
        "run_id" => id("0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e11", "0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e12"),
        "checkpoint_id" => id("1f0c0b8e-52a1-6f1c-8a0e-0d8a2f6d7e11", "1f0c0b8e-52a1-6f1c-8a0e-0d8a2f6d7e12"),
        "key_id" => id("0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e21", "0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e22"),
        "feedback_id" => id("0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e31", "0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e32"),
        "filename" | "path" => Some("mnt/user-data/outputs/a.md".to_owned()),
        _ => None,
    }
}

fn parameters(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

fn fill(path: &str, owned: bool) -> String {
    parameters(path).into_iter().fold(path.to_owned(), |filled, name| {
        let bare = name.trim_start_matches('*');
        filled.replace(&format!("{{{name}}}"), &value(bare, owned).unwrap_or_else(|| "none".to_owned()))
    })
}

/// A value that fits a schema: its example, or the smallest.
fn sample(document: &Value, schema: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        return sample(document, document.pointer(name.trim_start_matches('#')).unwrap());
    }
    for known in [&schema["example"], &schema["examples"][0], &schema["default"], &schema["enum"][0]] {
        if !known.is_null() {
            return known.clone();
        }
    }
    if let Some(variant) =
        schema["oneOf"].as_array().or(schema["anyOf"].as_array()).and_then(|variants| variants.last())
    {
        return sample(document, variant);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().map(|part| sample(document, part)).fold(json!({}), |mut all, part| {
            all.as_object_mut().unwrap().extend(part.as_object().cloned().unwrap_or_default());
            all
        });
    }
    let kind = schema["type"].as_str().or(schema["type"][0].as_str()).unwrap_or("object");
    match kind {
        "string" => json!("text"),
        "integer" | "number" => schema["minimum"].as_i64().unwrap_or(1).into(),
        "boolean" => json!(false),
        "array" => json!([]),
        _ => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let required = required.iter().filter_map(Value::as_str);
            required
                .map(|name| (name.to_owned(), sample(document, &schema["properties"][name])))
                .collect::<JsonMap>()
                .into()
        }
    }
}

impl Route {
    fn is_open(&self) -> bool {
        OPEN.contains(&self.path.as_str())
    }
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
    /// Whether it names something that somebody owns.
    fn names_something_owned(&self) -> bool {
        parameters(&self.path).iter().any(|name| value(name.trim_start_matches('*'), true).is_some())
    }
    fn body(&self, document: &Value, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let content = &self.operation["requestBody"]["content"];
        if !content["application/json"].is_null() {
            return request.json(&sample(document, &content["application/json"]["schema"]));
        }
        if !content["multipart/form-data"].is_null() {
            let part =
                "--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.txt\"\r\n\r\nx\r\n--b--\r\n";
            return request.header("content-type", "multipart/form-data; boundary=b").body(part);
        }
        request
    }
}

#[tokio::test]
async fn without_a_session_and_without_a_token_every_route_says_so() {
    let gateway = Gateway::start_with("auth:\n  enabled: true\n").await;
    let admin = Browser::admin(&gateway).await;
    let (document, routes) = routes();
    for route in routes.iter().filter(|route| !route.is_open()) {
        for mount in ["/api", "/api/langgraph"] {
            let path = fill(&route.path, false).replacen("/api", mount, 1);
            let stranger = gateway.client.request(route.method.clone(), format!("{}{path}", gateway.url));
            let stranger = stranger.header("cookie", "csrf_token=x").header("x-csrf-token", "x");
            let (status, body) = answer(route.body(&document, stranger)).await;
            assert_eq!((status, &body["detail"]["code"]), (401, &json!("not_authenticated")), "{}", route.name());
            if route.method != Method::GET {
                let (status, body) = answer(route.body(&document, admin.bare(route.method.clone(), &path))).await;
                let text = body["detail"].as_str().unwrap_or_default();
                assert!(status == 403 && text.starts_with("CSRF token missing"), "{} {status} {body}", route.name());
            }
            let described = &route.operation["security"];
            assert!(described.is_null(), "{} is described as open", route.name());
        }
    }
}

#[tokio::test]
async fn no_route_gives_or_changes_what_is_another_users() {
    let gateway = Gateway::start_with("auth:\n  enabled: true\n").await;
    Browser::admin(&gateway).await;
    let bob = Browser::user(&gateway, "bob").await;
    let owner = UserId::local();
    let thread = ThreadId::parse(value("thread_id", true).unwrap()).unwrap();
    let metadata = json!({"mark": MARK}).as_object().cloned().unwrap();
    gateway.store.create_thread(&owner, &thread, metadata).await.unwrap();
    let folder = gateway.home.path().join(format!("users/{owner}/threads/{thread}/user-data/outputs"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.md"), MARK).unwrap();
    let all = async || gateway.store.search_threads(&owner, ThreadQuery::default()).await.unwrap();
    let before = all().await;

    let (document, routes) = routes();
    for route in routes.iter().filter(|route| !route.is_open()) {
        let ask = async |owned: bool| {
            let request = bob.request(route.method.clone(), &fill(&route.path, owned));
            answer(route.body(&document, request)).await
        };
        let (status, body) = ask(true).await;
        assert!(!body.to_string().contains(MARK), "{} tells {body}", route.name());
        assert_ne!(status, 422, "{}: the example of its body does not fit: {body}", route.name());
        assert!(status < 500 || status == 503, "{} {status} {body}", route.name());
        if route.names_something_owned() {
            assert_eq!(status, 404, "{} {body}", route.name());
            let absent = ask(false).await;
            // What is made on the way, as a thread is by an upload, may be there for nobody else.
            if absent.0 == 404 {
                let same = parameters(&route.path).iter().fold(body.to_string(), |text, name| {
                    let name = name.trim_start_matches('*');
                    match (value(name, true), value(name, false)) {
                        (Some(mine), Some(nobodys)) => text.replace(&mine, &nobodys),
                        _ => text,
                    }
                });
                assert_eq!(same, absent.1.to_string(), "{}", route.name());
            }
        }
    }
    assert_eq!(all().await, before);
    assert_eq!(std::fs::read_to_string(folder.join("a.md")).unwrap(), MARK);
}
