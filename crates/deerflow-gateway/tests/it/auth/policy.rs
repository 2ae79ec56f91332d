//! What a role may do, and how often.

use crate::browser::Browser;
use crate::support::Gateway;
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn a_role_may_do_what_the_policy_says() {
    let gateway = Gateway::start_with(
        "auth:\n  enabled: true\nauthorization:\n  enabled: true\n  provider:\n    use: rbac\n    config:\n      roles:\n        \
         admin: {}\n        user:\n          routes:\n            allow: [\"threads:read\"]\n",
    )
    .await;
    let admin = Browser::admin(&gateway).await;
    let bob = Browser::user(&gateway, "bob").await;
    let denied = (403, json!({"detail": "Permission denied: threads:write"}));
    for mount in ["/api", "/api/langgraph"] {
        assert_eq!(bob.post(&format!("{mount}/threads"), &json!({})).await, denied);
        assert_eq!(bob.post(&format!("{mount}/threads/search"), &json!({})).await, (200, json!([])));
        assert_eq!(admin.post(&format!("{mount}/threads"), &json!({})).await.0, 200);
    }
    assert_eq!(bob.get("/api/models").await.0, 200);
}

#[tokio::test]
async fn requests_of_one_user_can_be_limited() {
    let gateway = Gateway::start_with("auth:\n  requests_per_minute: 3\n").await;
    let admin = Browser::admin(&gateway).await;
    for _ in 0..3 {
        assert_eq!(admin.get("/api/models").await.0, 200);
    }
    let response = admin.request(reqwest::Method::GET, "/api/models").send().await.unwrap();
    assert_eq!(response.status(), 429);
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=21).contains(&wait), "{wait}");
    // Who is not logged in has a limit of their own; the account above was made on it.
    assert_eq!(gateway.get("/health").await.0, 200);
}
