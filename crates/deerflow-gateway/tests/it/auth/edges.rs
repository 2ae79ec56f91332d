//! Foreign pages, proxies, headers.

use crate::browser::{Browser, form};
use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;

const ON: &str = "auth:\n  enabled: true\n";

#[tokio::test]
async fn what_changes_something_repeats_the_token() {
    let gateway = Gateway::start_with(ON).await;
    let admin = Browser::admin(&gateway).await;
    let missing = (403, json!({"detail": "CSRF token missing. Include X-CSRF-Token header."}));
    let mismatch = (403, json!({"detail": "CSRF token mismatch."}));
    for mount in ["/api", "/api/langgraph"] {
        let bare = || admin.bare(Method::POST, &format!("{mount}/threads")).json(&json!({}));
        assert_eq!(answer(bare()).await, missing);
        assert_eq!(answer(bare().header("X-CSRF-Token", "")).await, missing);
        assert_eq!(answer(bare().header("X-CSRF-Token", "x")).await, mismatch);
        assert_eq!(admin.post(&format!("{mount}/threads"), &json!({})).await.0, 200);
    }
    // Before who asks is looked at, and any pair that is equal will do.
    assert_eq!(gateway.post("/api/threads", &json!({})).await, missing);
    let mut program = admin.clone();
    program.cookies.insert("csrf_token".to_owned(), "x".to_owned());
    assert_eq!(program.post("/api/threads", &json!({})).await.0, 200);
    program.cookies.remove("access_token");
    assert_eq!(program.post("/api/threads", &json!({})).await.0, 401);
    assert_eq!(admin.bare(Method::GET, "/api/models").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn no_foreign_page_logs_anybody_in() {
    let gateway = Gateway::start_in(ON, &[("GATEWAY_CORS_ORIGINS", "https://app.example")]).await;
    Browser::admin(&gateway).await;
    let port = gateway.url.rsplit_once(':').unwrap().1.to_owned();
    let login = async |headers: &[(&'static str, &str)]| {
        let request = Browser::new(&gateway).request(Method::POST, "/api/v1/auth/login/local");
        let request = form(request, &[("username", "admin@example.com"), ("password", "admin's passphrase")]);
        answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    };
    assert_eq!(login(&[]).await.0, 200);
    assert_eq!(login(&[("origin", &gateway.url)]).await.0, 200);
    assert_eq!(login(&[("origin", "https://app.example")]).await.0, 200);
    // Proxies that drop the port, end TLS, or pass the host on in their own headers.
    assert_eq!(login(&[("host", "localhost"), ("origin", &format!("http://localhost:{port}"))]).await.0, 200);
    assert_eq!(login(&[("host", "my.example"), ("origin", "https://my.example")]).await.0, 200);
    let proxied = [
        ("x-forwarded-host", "my.example:8443"),
        ("x-forwarded-proto", "https"),
        ("origin", "https://my.example:8443"),
    ];
    assert_eq!(login(&proxied).await.0, 200);
    for foreign in ["https://evil.example", "null", "http://127.0.0.1:1", "file://"] {
        let (status, body) = login(&[("origin", foreign)]).await;
        let text = body["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 403, "{foreign}");
        assert!(text.starts_with("Cross-site auth request denied.") && text.contains(&gateway.url), "{text}");
        assert!(text.contains(foreign.trim_end_matches('/')), "{text}");
    }
    let upgrade = |origin: &str| {
        let request = gateway.client.get(format!("{}/api/models", gateway.url));
        request.header("connection", "upgrade").header("upgrade", "websocket").header("origin", origin)
    };
    assert_eq!(answer(upgrade("https://evil.example")).await.0, 403);
    assert_eq!(answer(upgrade("https://app.example")).await.0, 401);
}

#[tokio::test]
async fn cookies_are_as_safe_as_the_way() {
    let gateway = Gateway::start_with(ON).await;
    Browser::admin(&gateway).await;
    let set = async |headers: &[(&'static str, &'static str)], remember: &str| {
        let request = Browser::new(&gateway).request(Method::POST, "/api/v1/auth/login/local");
        let fields = [("username", "admin@example.com"), ("password", "admin's passphrase"), ("remember_me", remember)];
        let request =
            headers.iter().fold(form(request, &fields), |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["cache-control"], "no-store");
        let cookies = response.headers().get_all("set-cookie").iter().map(|set| set.to_str().unwrap().to_owned());
        let cookies: Vec<String> = cookies.collect();
        let names: Vec<&str> = cookies.iter().map(|set| set.split('=').next().unwrap()).collect();
        assert_eq!(names, ["access_token", "deerflow_session_persistent", "csrf_token"]);
        let all = |word: &str| cookies.iter().all(|set| set.contains(word));
        (all("Secure"), all("Max-Age=604800"))
    };
    assert_eq!(set(&[], "true").await, (false, true));
    assert_eq!(set(&[("host", "deer.example")], "true").await, (false, false));
    assert_eq!(set(&[("host", "deer.example"), ("x-forwarded-proto", "https")], "1").await, (true, true));
    assert_eq!(set(&[("host", "deer.example"), ("forwarded", "proto=https")], "false").await, (true, false));
}

#[tokio::test]
async fn every_answer_is_guarded_and_has_an_id() {
    let gateway = Gateway::start_in(ON, &[("GATEWAY_CORS_ORIGINS", "https://app.example")]).await;
    let get = |path: &str| gateway.client.get(format!("{}{path}", gateway.url));
    for path in ["/health", "/api/models", "/nowhere", "/setup"] {
        let response = get(path).send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{path}");
        assert_eq!(header("x-frame-options").as_deref(), Some("SAMEORIGIN"), "{path}");
        assert_eq!(header("x-trace-id").map(|id| id.len()), Some(32), "{path}");
        assert_eq!(header("access-control-allow-origin"), None, "{path}");
    }
    let traced = async |id: &'static str| {
        let response = get("/health").header("X-Trace-Id", id).send().await.unwrap();
        response.headers()["x-trace-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(traced("req-1.2:3").await, "req-1.2:3");
    assert_ne!(traced("a b").await, "a b");

    let preflight = |origin: &'static str| {
        let request = gateway.client.request(Method::OPTIONS, format!("{}/api/threads", gateway.url));
        request
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "x-csrf-token")
    };
    let allowed = preflight("https://app.example").send().await.unwrap();
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example");
    assert_eq!(allowed.headers()["access-control-allow-credentials"], "true");
    assert_eq!(allowed.headers()["access-control-allow-headers"], "x-csrf-token");
    let refused = preflight("https://evil.example").send().await.unwrap();
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    let exposed = get("/health").header("origin", "https://app.example").send().await.unwrap();
    assert!(exposed.headers()["access-control-expose-headers"].to_str().unwrap().contains("content-location"));
}

#[tokio::test]
async fn the_page_for_newcomers_runs_only_its_own_script() {
    let gateway = Gateway::start_with(ON).await;
    let response = gateway.client.get(format!("{}/setup", gateway.url)).send().await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let page = response.text().await.unwrap();
    assert!(page.contains("<script src=\"/account.js\">") && !page.contains("onclick"), "{page}");
    let script = gateway.client.get(format!("{}/account.js", gateway.url)).send().await.unwrap();
    assert_eq!(script.headers()["content-type"], "text/javascript; charset=utf-8");
}
