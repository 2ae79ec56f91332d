//! Personal keys, and other processes of ours.

use crate::browser::Browser;
use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};

const ON: &str = "auth:\n  enabled: true\n";
const KEYS: &str = "/api/v1/auth/api-keys";

#[tokio::test]
async fn a_key_stands_for_its_owner() {
    let gateway = Gateway::start_with(ON).await;
    let admin = Browser::admin(&gateway).await;
    let bob = Browser::user(&gateway, "bob").await;
    let (status, made) = bob.post(KEYS, &json!({"name": "laptop"})).await;
    assert_eq!(status, 201, "{made}");
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("df_") && key.starts_with(made["prefix"].as_str().unwrap()));

    let program = |method, path: &str| gateway.client.request(method, format!("{}{path}", gateway.url));
    let email = async |request: reqwest::RequestBuilder| answer(request).await.1["email"].clone();
    let me = || program(Method::GET, "/api/v1/auth/me");
    assert_eq!(email(me().bearer_auth(key)).await, "bob@example.com");
    assert_eq!(email(me().header("x-api-key", key)).await, "bob@example.com");
    assert_eq!(email(me().bearer_auth(key).header("x-api-key", "lsv2_pt_other")).await, "bob@example.com");
    // A key needs no CSRF token, and it wins over whatever cookies come with it.
    let create = program(Method::POST, "/api/threads").bearer_auth(key).json(&json!({"thread_id": "by-key"}));
    assert_eq!(answer(create).await.0, 200);
    assert_eq!(email(admin.bare(Method::GET, "/api/v1/auth/me").bearer_auth(key)).await, "bob@example.com");

    // Another service's key is as if it were not there.
    assert_eq!(
        email(admin.bare(Method::GET, "/api/v1/auth/me").header("x-api-key", "lsv2_pt_other")).await,
        "admin@example.com"
    );
    let foreign = answer(me().header("x-api-key", "lsv2_pt_other")).await;
    assert_eq!((foreign.0, &foreign.1["detail"]["code"]), (401, &json!("not_authenticated")));
    // A wrong one of ours is not, also when there is a session.
    let wrong = answer(admin.bare(Method::GET, "/api/v1/auth/me").bearer_auth("df_wrong")).await;
    assert_eq!((wrong.0, &wrong.1["detail"]["code"]), (401, &json!("token_invalid")));

    let (_, listed) = bob.get(KEYS).await;
    assert_eq!(listed["api_keys"][0]["id"], made["id"]);
    assert_ne!(listed["api_keys"][0]["last_used_at"], Value::Null);
    assert!(!listed.to_string().contains(key));
    assert_eq!(admin.get(KEYS).await, (200, json!({"api_keys": []})));
    let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
    let none = (404, json!({"detail": "API key not found"}));
    assert_eq!(answer(admin.request(Method::DELETE, &path)).await, none);
    assert_eq!(email(me().bearer_auth(key)).await, "bob@example.com");
    assert_eq!(answer(bob.request(Method::DELETE, &path)).await.0, 204);
    assert_eq!(answer(bob.request(Method::DELETE, &path)).await, none);
    assert_eq!(answer(me().bearer_auth(key)).await.0, 401);
}

#[tokio::test]
async fn names_and_ends_of_keys_are_checked() {
    let gateway = Gateway::start_with(ON).await;
    let admin = Browser::admin(&gateway).await;
    for bad in
        [json!({}), json!({"name": ""}), json!({"name": "x".repeat(101)}), json!({"name": "x", "expires_in_days": 0})]
    {
        assert_eq!(admin.post(KEYS, &bad).await.0, 422, "{bad}");
    }
    let (_, made) = admin.post(KEYS, &json!({"name": "x", "expires_in_days": 1})).await;
    assert!(made["expires_at"].as_str().unwrap() > made["created_at"].as_str().unwrap());
}

#[tokio::test]
async fn processes_of_ours_ask_for_others() {
    let token = "a token that only our processes know";
    let gateway = Gateway::start_in(ON, &[("DEER_FLOW_INTERNAL_AUTH_TOKEN", token)]).await;
    Browser::admin(&gateway).await;
    let bob = Browser::user(&gateway, "bob").await;
    let id = bob.get("/api/v1/auth/me").await.1["id"].as_str().unwrap().to_owned();
    let ask = |token: &str, owner: &str| {
        let request =
            gateway.client.post(format!("{}/api/threads", gateway.url)).json(&json!({"thread_id": "for-bob"}));
        request.header("X-DeerFlow-Internal-Token", token).header("X-DeerFlow-Owner-User-Id", owner)
    };
    let with_csrf =
        |request: reqwest::RequestBuilder| request.header("cookie", "csrf_token=x").header("x-csrf-token", "x");
    assert_eq!(answer(ask(token, &id)).await.0, 403);
    assert_eq!(answer(with_csrf(ask("wrong", &id))).await.0, 401);
    assert_eq!(answer(with_csrf(ask(token, "../bob"))).await.0, 400);
    assert_eq!(answer(with_csrf(ask(token, &id))).await.0, 200);
    assert_eq!(bob.post("/api/threads/search", &json!({})).await.1[0]["thread_id"], "for-bob");
}
