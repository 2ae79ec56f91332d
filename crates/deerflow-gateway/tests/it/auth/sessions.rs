//! Accounts and sessions.

use crate::browser::{Browser, form};
use crate::support::{Gateway, answer};
use deerflow_core::ports::{NewUser, SystemRole, ThreadRepo as _, UserRepo as _};
use deerflow_core::{JsonMap, ThreadId, UserId};
use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};

const ON: &str = "auth:\n  enabled: true\n";

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["detail"]["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn a_new_installation_is_set_up_once_and_its_first_account_owns_what_was_there() {
    let gateway = Gateway::start_with(ON).await;
    let before = ThreadId::parse("from-the-command-line").unwrap();
    gateway.store.create_thread(&UserId::local(), &before, JsonMap::new()).await.unwrap();
    let mut admin = Browser::new(&gateway);
    let status = |needs: bool| (200, json!({"needs_setup": needs, "registration_enabled": true}));
    assert_eq!(admin.get("/api/v1/auth/setup-status").await, status(true));
    assert_eq!(code(&admin.get("/api/models").await), (401, "not_authenticated"));
    assert_eq!(gateway.get("/health").await.0, 200);

    let path = "/api/langgraph/v1/auth/initialize";
    for (body, field) in [
        (json!({"email": "ann@example.com", "password": "short"}), "password"),
        (json!({"email": "ann@example.com", "password": "Password123"}), "password"),
        (json!({"email": "ann", "password": "three grey herons"}), "email"),
    ] {
        let (status, refused) = admin.send(Method::POST, path, &body).await;
        assert_eq!((status, &refused["detail"][0]["loc"]), (422, &json!(["body", field])), "{refused}");
        assert!(!refused.to_string().contains(body["password"].as_str().unwrap()), "{refused}");
    }
    assert!(!admin.cookies.contains_key("access_token"));
    let body = json!({"email": "ann@example.com", "password": "three grey herons"});
    let user = json!({"id": "default", "email": "ann@example.com", "system_role": "admin", "needs_setup": false, "oauth_provider": null});
    assert_eq!(admin.send(Method::POST, path, &body).await, (201, user.clone()));
    assert_eq!(admin.get("/api/v1/auth/me").await, (200, user));
    assert_eq!(admin.get("/api/v1/auth/setup-status").await, status(false));
    let (_, threads) = admin.post("/api/threads/search", &json!({})).await;
    assert_eq!(threads[0]["thread_id"], json!(before));
    let again = Browser::new(&gateway).send(Method::POST, path, &body).await;
    assert_eq!(code(&again), (409, "system_already_initialized"));
}

#[tokio::test]
async fn of_many_who_set_up_at_once_one_succeeds() {
    let gateway = Gateway::start_with(ON).await;
    let attempts = (0..6).map(|n| {
        let mut browser = Browser::new(&gateway);
        async move {
            let body = json!({"email": format!("{n}@example.com"), "password": "three grey herons"});
            browser.send(Method::POST, "/api/v1/auth/initialize", &body).await.0
        }
    });
    let mut statuses = futures::future::join_all(attempts).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409]);
    assert_eq!(gateway.store.count_admins().await.unwrap(), 1);
}

#[tokio::test]
async fn a_session_begins_and_ends() {
    let gateway = Gateway::start_with(ON).await;
    Browser::admin(&gateway).await;
    let mut bob = Browser::user(&gateway, "bob").await;
    assert_eq!(bob.get("/api/v1/auth/me").await.1["system_role"], "user");
    let taken = json!({"email": "BOB@example.com", "password": "another passphrase"});
    assert_eq!(
        code(&Browser::new(&gateway).send(Method::POST, "/api/v1/auth/register", &taken).await),
        (400, "email_already_exists")
    );
    assert_eq!(bob.send(Method::POST, "/api/v1/auth/logout", &json!({})).await.0, 200);
    assert!(bob.cookies.is_empty(), "{:?}", bob.cookies);
    assert_eq!(code(&bob.get("/api/v1/auth/me").await), (401, "not_authenticated"));

    assert_eq!(code(&bob.login("bob@example.com", "wrong passphrase").await), (401, "invalid_credentials"));
    assert_eq!(code(&bob.login("nobody@example.com", "bob's passphrase").await), (401, "invalid_credentials"));
    assert_eq!(
        bob.login("Bob@Example.com", "bob's passphrase").await,
        (200, json!({"expires_in": 604_800, "needs_setup": false}))
    );
    let elsewhere = bob.clone();
    let wrong = json!({"current_password": "wrong passphrase", "new_password": "bob's new passphrase"});
    assert_eq!(bob.send(Method::POST, "/api/v1/auth/change-password", &wrong).await.0, 400);
    let weak = json!({"current_password": "bob's passphrase", "new_password": "password"});
    assert_eq!(bob.send(Method::POST, "/api/v1/auth/change-password", &weak).await.0, 422);
    let right = json!({"current_password": "bob's passphrase", "new_password": "bob's new passphrase", "new_email": "rob@example.com"});
    assert_eq!(bob.send(Method::POST, "/api/v1/auth/change-password", &right).await.0, 200);
    // This session goes on, the other one does not.
    assert_eq!(bob.get("/api/v1/auth/me").await.1["email"], "rob@example.com");
    assert_eq!(code(&elsewhere.get("/api/v1/auth/me").await), (401, "token_invalid"));
    assert_eq!(Browser::new(&gateway).login("bob@example.com", "bob's passphrase").await.0, 401);
    assert_eq!(Browser::new(&gateway).login("rob@example.com", "bob's new passphrase").await.0, 200);
}

#[tokio::test]
async fn a_session_that_does_not_hold_is_named() {
    let key = "an old key of forty characters, or so ...";
    let gateway = Gateway::start_in(ON, &[("AUTH_JWT_SECRET", key)]).await;
    let mut admin = Browser::admin(&gateway).await;
    let sign = |claims: Value| {
        let key = jsonwebtoken::EncodingKey::from_secret(key.as_bytes()).unwrap();
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
    };
    let now = jsonwebtoken::get_current_timestamp();
    for (token, expected) in [
        (sign(json!({"sub": "default", "iat": now, "exp": now + 60, "ver": 0})), ""),
        (sign(json!({"sub": "default", "iat": now - 60, "exp": now - 1, "ver": 0})), "token_expired"),
        (sign(json!({"sub": "default", "iat": now, "exp": now + 60, "ver": 7})), "token_invalid"),
        (sign(json!({"sub": "nobody", "iat": now, "exp": now + 60, "ver": 0})), "user_not_found"),
        (sign(json!({"sub": "../default", "iat": now, "exp": now + 60, "ver": 0})), "token_invalid"),
        ("garbage".to_owned(), "token_invalid"),
    ] {
        admin.cookies.insert("access_token".to_owned(), token);
        let answer = admin.get("/api/v1/auth/me").await;
        assert_eq!(code(&answer), (if expected.is_empty() { 200 } else { 401 }, expected));
        // Whoever cannot be recognised can still log in.
        assert_eq!(admin.get("/api/v1/auth/setup-status").await.0, 200);
    }
}

#[tokio::test]
async fn passwords_of_the_original_hold_and_are_kept_anew() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let gateway = Gateway::start_with(ON).await;
    let digest = sha2::Sha256::digest("an old passphrase");
    let inner = base64::engine::general_purpose::STANDARD.encode(digest);
    let user = NewUser {
        user_id: UserId::random(),
        email: "old@example.com".to_owned(),
        password_hash: Some(format!("$dfv2${}", bcrypt::hash(inner, 4).unwrap())),
        system_role: SystemRole::User,
        needs_setup: true,
        oauth: None,
    };
    let id = gateway.store.create_user(user).await.unwrap().user_id;
    let mut old = Browser::new(&gateway);
    assert_eq!(
        old.login("old@example.com", "an old passphrase").await,
        (200, json!({"expires_in": 604_800, "needs_setup": true}))
    );
    assert_eq!(old.get("/api/v1/auth/me").await.0, 200);
    let hash = gateway.store.user(&id).await.unwrap().unwrap().password_hash.unwrap();
    assert!(hash.starts_with("$argon2id$"), "{hash}");
    assert_eq!(Browser::new(&gateway).login("old@example.com", "an old passphrase").await.0, 200);
}

#[tokio::test]
async fn five_wrong_passwords_are_followed_by_a_wait() {
    let gateway = Gateway::start_in(ON, &[("AUTH_TRUSTED_PROXIES", "127.0.0.1")]).await;
    Browser::admin(&gateway).await;
    let try_from = async |address: &str, password: &str| {
        let request = Browser::new(&gateway).request(Method::POST, "/api/v1/auth/login/local");
        let fields = [("username", "admin@example.com"), ("password", password)];
        answer(form(request.header("X-Real-IP", address), &fields)).await
    };
    for _ in 0..5 {
        assert_eq!(try_from("10.0.0.1", "wrong passphrase").await.0, 401);
    }
    let locked = (429, json!({"detail": "Too many login attempts. Try again later."}));
    assert_eq!(try_from("10.0.0.1", "admin's passphrase").await, locked);
    assert_eq!(try_from("10.0.0.2", "admin's passphrase").await.0, 200);
}

#[tokio::test]
async fn the_operator_may_keep_registration_closed() {
    let gateway = Gateway::start_with("auth:\n  local:\n    allow_registration: false\n").await;
    Browser::admin(&gateway).await;
    let body = json!({"email": "bob@example.com", "password": "bob's passphrase"});
    let refused = Browser::new(&gateway).send(Method::POST, "/api/v1/auth/register", &body).await;
    assert_eq!(code(&refused), (403, "registration_disabled"));
    assert_eq!(gateway.get("/api/v1/auth/setup-status").await.1["registration_enabled"], false);
}
