//! Without login.

use crate::support::{Gateway, answer};
use deerflow_config::Config;
use deerflow_gateway::{Auth, AuthConfig, AuthError, Environment};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn whoever_is_at_the_machine_is_the_administrator() {
    let gateway = Gateway::start_in("auth:\n  enabled: true\n", &[("DEER_FLOW_AUTH_DISABLED", "1")]).await;
    let me = json!({"id": "default", "email": "default@test.local", "system_role": "admin", "needs_setup": false, "oauth_provider": null});
    assert_eq!(gateway.get("/api/v1/auth/me").await, (200, me));
    assert_eq!(gateway.get("/api/v1/auth/setup-status").await.1["needs_setup"], false);
    assert_eq!(gateway.post("/api/threads", &json!({})).await.0, 200);
    let change = json!({"current_password": "x", "new_password": "three grey herons"});
    assert_eq!(gateway.post("/api/v1/auth/change-password", &change).await.0, 400);
    // A key made without accounts is good for what is there.
    let (_, made) = gateway.post("/api/v1/auth/api-keys", &json!({"name": "x"})).await;
    let get = gateway.client.get(format!("{}/api/v1/auth/me", gateway.url));
    assert_eq!(answer(get.bearer_auth(made["key"].as_str().unwrap())).await.1["id"], "default");
}

#[tokio::test]
async fn no_page_from_elsewhere_gets_in() {
    let gateway = Gateway::start().await;
    let port = gateway.url.rsplit_once(':').unwrap().1;
    let get = |host: &str| answer(gateway.client.get(format!("{}/api/models", gateway.url)).header("host", host));
    for host in [format!("localhost:{port}"), "127.0.0.1".to_owned(), "[::1]:80".to_owned()] {
        assert_eq!(get(&host).await.0, 200, "{host}");
    }
    // A name that was pointed to this machine.
    for host in ["evil.example", "localhost.evil.example", "0.0.0.0", "192.168.1.7"] {
        let (status, body) = get(host).await;
        assert_eq!(status, 403, "{host}");
        assert!(body["detail"].as_str().unwrap().contains("http://localhost"), "{body}");
    }
    let post = |origin: &'static str| {
        let request = gateway.client.post(format!("{}/api/threads", gateway.url)).header("origin", origin);
        answer(request.header("content-type", "text/plain").body("{}"))
    };
    assert_eq!(post("http://localhost:3000").await.0, 200);
    for origin in ["https://evil.example", "null"] {
        assert_eq!(post(origin).await.0, 403, "{origin}");
    }
}

#[tokio::test]
async fn it_is_refused_where_others_could_use_it() {
    let home = tempfile::tempdir().unwrap();
    let open = async |enabled| {
        let section = AuthConfig { enabled, ..AuthConfig::default() };
        let config = Config::new(home.path()).with_section(section);
        Auth::open(Arc::new(config), Environment::default()).await.unwrap()
    };
    let off = open(false).await;
    let loopback = "127.0.0.1".parse().unwrap();
    assert!(off.permit(loopback, true).is_ok());
    assert!(off.permit("::1".parse().unwrap(), true).is_ok());
    assert!(matches!(off.permit(loopback, false), Err(AuthError::Unconfined)));
    for open_address in ["0.0.0.0", "::", "192.168.1.7"] {
        assert!(matches!(off.permit(open_address.parse().unwrap(), true), Err(AuthError::Exposed { .. })));
    }
    assert!(open(true).await.permit("0.0.0.0".parse().unwrap(), false).is_ok());
}
