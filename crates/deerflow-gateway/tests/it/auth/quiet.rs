//! No secret in any log.

use crate::browser::Browser;
use crate::support::{Gateway, answer};
use reqwest::Method;
use serde_json::json;
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_logs_of_a_whole_login_tell_no_secret() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    // While there is one subscriber, tracing asks the thread at hand what interests it: another test's thread would turn off what
    // this one wants to hear. With two it asks both.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let signing = "a signing key of more than thirty-two characters";
    let internal = "an internal token of some length";
    let variables = [("AUTH_JWT_SECRET", signing), ("DEER_FLOW_INTERNAL_AUTH_TOKEN", internal)];
    let gateway = Gateway::start_in("auth:\n  enabled: true\n", &variables).await;
    let mut admin = Browser::admin(&gateway).await;
    let mut secrets = vec!["admin's passphrase".to_owned(), "s%20passphrase".to_owned(), "s+passphrase".to_owned()];
    secrets.extend(["a new phrase", "a wrong phrase", signing, internal, "lsv2_pt_foreign"].map(str::to_owned));
    secrets.extend(admin.cookies.values().filter(|value| value.len() > 1).cloned());
    let (_, made) = admin.post("/api/v1/auth/api-keys", &json!({"name": "laptop"})).await;
    let key = made["key"].as_str().unwrap().to_owned();
    assert_eq!(admin.login("admin@example.com", "a wrong phrase").await.0, 401);
    assert_eq!(admin.login("admin@example.com", "admin's passphrase").await.0, 200);
    secrets.extend(admin.cookies.values().filter(|value| value.len() > 1).cloned());
    let change = json!({"current_password": "admin's passphrase", "new_password": "a new phrase"});
    assert_eq!(admin.send(Method::POST, "/api/v1/auth/change-password", &change).await.0, 200);
    let me = || gateway.client.get(format!("{}/api/v1/auth/me?key={key}", gateway.url));
    assert_eq!(answer(me().bearer_auth(&key)).await.0, 200);
    assert_eq!(answer(me().header("x-api-key", "lsv2_pt_foreign")).await.0, 401);
    assert_eq!(answer(me().header("X-DeerFlow-Internal-Token", internal)).await.0, 200);
    let broken =
        gateway.client.post(format!("{}/api/v1/auth/initialize", gateway.url)).body("{\"password\": \"a new phrase\"");
    assert_eq!(answer(broken).await.0, 422);
    secrets.push(key);

    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("/api/v1/auth/login/local") && log.contains("TRACE"), "nothing was logged");
    // The client of this test is no part of the server.
    let ours: Vec<&str> =
        log.lines().filter(|line| !line.contains("reqwest::") && !line.contains("hyper_util::client")).collect();
    for secret in secrets {
        let told: Vec<&&str> = ours.iter().filter(|line| line.contains(&secret)).collect();
        assert!(told.is_empty(), "{secret:?} is in {told:#?}");
    }
}
