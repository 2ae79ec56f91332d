//! Every route of the document, asked by those who must not get anything.

use crate::browser::Browser;
use crate::support::{Gateway, answer};
use deerflow_core::ports::{
    ApiKeyRepo as _, FeedbackRepo as _, ItemRepo as _, NewApiKey, NewFeedback, NewItem, NewRun, Rating, RunFilter,
    RunRepo as _, ThreadQuery, ThreadRepo as _, Worker,
};
use deerflow_core::{JsonMap, Message, RunId, StateUpdate, ThreadId, UserId};
use deerflow_gateway::FreshApiKey;
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

/// Ids of things that the first user owns, or that nobody does.
struct Ids {
    thread: String,
    run: String,
    key: String,
    feedback: String,
}

impl Ids {
    fn of_nobody() -> Self {
        let id = || uuid::Uuid::new_v4().to_string();
        Self { thread: "absent-thread".to_owned(), run: id(), key: id(), feedback: id() }
    }

    /// What a parameter of a path is filled with; `None` when what it names is everybody's own, an agent say, or nobody's.
    fn value(&self, parameter: &str) -> Option<&str> {
        match parameter {
            "thread_id" => Some(&self.thread),
            "run_id" => Some(&self.run),
            "key_id" => Some(&self.key),
            "feedback_id" => Some(&self.feedback),
            _ => None,
        }
    }

    fn fill(&self, route: &Route) -> String {
        let path = parameters(&route.path).into_iter().fold(route.path.clone(), |filled, name| {
            let value = match name.trim_start_matches('*') {
                "path" => "mnt/user-data/outputs/a.md",
                "filename" => "a.md",
                "checkpoint_id" => "1f0c0b8e-52a1-6f1c-8a0e-0d8a2f6d7e11",
                other => self.value(other).unwrap_or("none"),
            };
            filled.replace(&format!("{{{name}}}"), value)
        });
        let query = route.operation["parameters"].as_array().into_iter().flatten().filter_map(|parameter| {
            let needed = parameter["in"] == "query" && parameter["required"] == true;
            needed.then(|| format!("{}=notes", parameter["name"].as_str().unwrap()))
        });
        let query: Vec<String> = query.collect();
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// A text about these as it would be about others.
    fn renamed(&self, text: &str, others: &Self) -> String {
        let text = text.replace(&self.thread, &others.thread).replace(&self.run, &others.run);
        text.replace(&self.key, &others.key).replace(&self.feedback, &others.feedback)
    }
}

fn parameters(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
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
        let anybody = Ids::of_nobody();
        parameters(&self.path).iter().any(|name| anybody.value(name.trim_start_matches('*')).is_some())
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
            let path = Ids::of_nobody().fill(route).replacen("/api", mount, 1);
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
    let mine = things(&gateway, &owner).await;
    let file = gateway.home.path().join(format!("users/{owner}/threads/{}/user-data/outputs/a.md", mine.thread));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, MARK).unwrap();
    let (thread, run) = (ThreadId::parse(mine.thread.clone()).unwrap(), RunId::parse(mine.run.clone()).unwrap());
    let all = async || {
        (
            gateway.store.search_threads(&owner, ThreadQuery::default()).await.unwrap(),
            gateway.store.runs(&owner, RunFilter::default()).await.unwrap(),
            gateway.store.feedback(&owner, &thread, Some(&run)).await.unwrap(),
            gateway.store.item(&owner, &["notes".to_owned()], "notes", false).await.unwrap().map(|item| item.value),
            gateway.store.api_keys(&owner).await.unwrap().len(),
        )
    };
    let before = all().await;

    let (document, routes) = routes();
    for (index, route) in routes.iter().filter(|route| !route.is_open()).enumerate() {
        // Another one each time: some routes make the thread that they are asked about.
        let nobodys = Ids { thread: format!("absent-thread-{index}"), ..Ids::of_nobody() };
        let ask = async |ids: &Ids| {
            let request = bob.request(route.method.clone(), &ids.fill(route));
            answer(route.body(&document, request)).await
        };
        let (status, body) = ask(&mine).await;
        assert!(!body.to_string().contains(MARK), "{} tells {body}", route.name());
        assert_ne!(status, 500, "{} {body}", route.name());
        if route.names_something_owned() {
            assert_ne!(status, 422, "{}: the example of its body does not fit: {body}", route.name());
            let absent = ask(&nobodys).await;
            let same = absent == (status, serde_json::from_str(&mine.renamed(&body.to_string(), &nobodys)).unwrap());
            // A thread that is made on the way, as by an upload, may be there for the asker only when nobody has it.
            let hidden = if absent.0 == 404 { same } else { same || status == 404 };
            assert!(hidden, "{} is {status} {body}, and {} {} for nobody's", route.name(), absent.0, absent.1);
        }
    }
    assert_eq!(all().await, before);
    assert_eq!(std::fs::read_to_string(file).unwrap(), MARK);
}

/// One of each, of this user.
async fn things(gateway: &Gateway, owner: &UserId) -> Ids {
    let (store, marked) = (&gateway.store, json!({"mark": MARK}).as_object().cloned().unwrap());
    let thread = ThreadId::parse("owned-thread").unwrap();
    store.create_thread(owner, &thread, marked.clone()).await.unwrap();
    let run = NewRun {
        run_id: RunId::random(),
        thread_id: thread.clone(),
        user_id: owner.clone(),
        worker: Worker { id: "elsewhere".to_owned(), label: "elsewhere".to_owned() },
        input: StateUpdate::messages([Message::human(MARK).with_id("in")]),
        options: json!({"mark": MARK}),
        idempotency_key: None,
    };
    let run = store.admit(run).await.unwrap().run_id;
    let fresh = FreshApiKey::generate();
    let key = NewApiKey { name: MARK.to_owned(), hash: fresh.hash, prefix: fresh.prefix, expires_at: None };
    let key = store.create_api_key(owner, key).await.unwrap().key_id;
    let feedback = NewFeedback { message_id: None, rating: Rating::Good, comment: Some(MARK.to_owned()) };
    let feedback = store.put_feedback(owner, &thread, &run, feedback).await.unwrap().feedback_id;
    let notes = "notes".to_owned();
    let item = NewItem { namespace: vec![notes.clone()], key: notes, value: marked, ttl_minutes: None };
    store.put_item(owner, item).await.unwrap();
    Ids { thread: thread.to_string(), run: run.to_string(), key, feedback }
}
