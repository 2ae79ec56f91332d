//! Login at an identity provider, a small one that this test runs.

use crate::browser::Browser;
use crate::support::Gateway;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use pretty_assertions::assert_eq;
use reqwest::Method;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use url::Url;

/// An identity provider.
#[derive(Clone)]
struct Provider {
    url: String,
    key: Arc<EncodingKey>,
    /// Claims that are put over the right ones.
    wrong: Arc<Mutex<Value>>,
    /// What the client sent when it began: by code.
    asked: Arc<Mutex<BTreeMap<String, BTreeMap<String, String>>>>,
    /// What is signed with instead.
    other_key: Arc<Mutex<Option<EncodingKey>>>,
}

fn key() -> EncodingKey {
    let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    EncodingKey::from_ec_der(pair.as_ref())
}

impl Provider {
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    async fn start() -> (Self, JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let provider = Self {
            url,
            key: Arc::new(key()),
            wrong: Arc::new(Mutex::new(json!({}))),
            asked: Arc::default(),
            other_key: Arc::default(),
        };
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(provider.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (provider, task)
    }

    /// Somebody logs in here: the code to go back with.
    fn approve(&self, address: &str) -> (String, BTreeMap<String, String>) {
        let address = Url::parse(address).unwrap();
        assert!(address.as_str().starts_with(&format!("{}/authorize?", self.url)), "{address}");
        let asked: BTreeMap<String, String> = address.query_pairs().into_owned().collect();
        let code = format!("code-{}", asked["state"]);
        self.asked.lock().unwrap().insert(code.clone(), asked.clone());
        (code, asked)
    }

    fn says(&self, claims: Value) {
        *self.wrong.lock().unwrap() = claims;
    }
}

async fn discovery(State(provider): State<Provider>) -> Json<Value> {
    let url = &provider.url;
    Json(json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys")}))
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    let mut jwk = Jwk::from_encoding_key(&provider.key, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some("k1".to_owned());
    // One of a kind that nobody knows must do no harm.
    Json(json!({"keys": [{"kty": "NEW", "kid": "k0", "x": 1}, jwk]}))
}

async fn token(
    State(provider): State<Provider>,
    headers: axum::http::HeaderMap,
    body: String,
) -> Result<Json<Value>, axum::http::StatusCode> {
    let form: BTreeMap<String, String> = serde_html_form::from_str(&body).unwrap();
    let refuse = axum::http::StatusCode::BAD_REQUEST;
    // A code is good for once.
    let asked = provider.asked.lock().unwrap().remove(&form["code"]).ok_or(refuse)?;
    assert_eq!(headers["authorization"], "Basic ZGVlcjpzJTNBZWNyZXQ=");
    assert_eq!(form["redirect_uri"], asked["redirect_uri"]);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    assert_eq!((&challenge, asked["code_challenge_method"].as_str()), (&asked["code_challenge"], "S256"));
    let now = get_current_timestamp();
    let mut claims = json!({"iss": provider.url, "aud": "deer", "sub": "ann-17", "exp": now + 60, "iat": now,
        "nonce": asked["nonce"], "email": "ann@corp.example", "email_verified": true});
    let wrong = provider.wrong.lock().unwrap().clone();
    claims.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
    let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::ES256) };
    let other = provider.other_key.lock().unwrap();
    let id_token = encode(&header, &claims, other.as_ref().unwrap_or(&provider.key)).unwrap();
    Ok(Json(json!({"access_token": "at", "token_type": "Bearer", "id_token": id_token})))
}

async fn gateway(provider: &Provider, more: &str) -> Gateway {
    Gateway::start_with(&format!(
        "auth:\n  enabled: true\n  oidc:\n    enabled: true\n    providers:\n      corp:\n        display_name: Corp\n        \
         issuer: {}\n        client_id: deer\n        client_secret: \"s:ecret\"\n{more}",
        provider.url
    ))
    .await
}

/// Sends a request and keeps the cookies: status, `Location`, body.
async fn follow(browser: &mut Browser, path: &str) -> (u16, String, String) {
    let response = browser.bare(Method::GET, path).send().await.unwrap();
    for set in response.headers().get_all("set-cookie") {
        let set = set.to_str().unwrap();
        let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
        browser.cookies.insert(name.to_owned(), value.to_owned());
    }
    let location = response.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), location.unwrap_or_default(), response.text().await.unwrap())
}

/// A whole login: where it ends.
async fn log_in(browser: &mut Browser, provider: &Provider) -> (u16, String) {
    let (status, there, body) = follow(browser, "/api/v1/auth/oauth/corp?next=/workspace/chats/7").await;
    assert_eq!(status, 302, "{body}");
    let (code, asked) = provider.approve(&there);
    let (status, location, _) =
        follow(browser, &format!("/api/v1/auth/callback/corp?code={code}&state={}", asked["state"])).await;
    (status, location)
}

#[tokio::test]
async fn somebody_with_an_account_elsewhere_gets_one_here() {
    let (provider, _task) = Provider::start().await;
    let gateway = gateway(&provider, "        admin_emails: [Ann@corp.example]\n").await;
    let mut ann = Browser::new(&gateway);
    let offered = json!({"providers": [{"id": "corp", "display_name": "Corp", "type": "oidc"}]});
    assert_eq!(ann.get("/api/v1/auth/providers").await, (200, offered));
    assert_eq!(log_in(&mut ann, &provider).await, (302, "/auth/callback?next=%2Fworkspace%2Fchats%2F7".to_owned()));
    let (_, me) = ann.get("/api/v1/auth/me").await;
    assert_eq!(
        (&me["email"], &me["system_role"], &me["oauth_provider"]),
        (&json!("ann@corp.example"), &json!("admin"), &json!("corp"))
    );
    assert_eq!(ann.post("/api/threads", &json!({})).await.0, 200);
    let change = json!({"current_password": "", "new_password": "three grey herons"});
    assert_eq!(ann.post("/api/v1/auth/change-password", &change).await.0, 400);
    assert_eq!(ann.login("ann@corp.example", "").await.0, 401);
    // Another day, with another address there: the same account.
    provider.says(json!({"email": "ann.smith@corp.example"}));
    let mut again = Browser::new(&gateway);
    assert_eq!(log_in(&mut again, &provider).await.0, 302);
    assert_eq!(again.get("/api/v1/auth/me").await.1["id"], me["id"]);
}

#[tokio::test]
async fn an_address_alone_takes_nothing_over() {
    let (provider, _task) = Provider::start().await;
    let gateway = gateway(&provider, "        allowed_email_domains: [corp.example, example.com]\n").await;
    Browser::admin(&gateway).await;
    let mut stranger = Browser::new(&gateway);
    for (claims, ending) in [
        (json!({"email": "Admin@example.com"}), "/login?error=sso_account_exists"),
        (json!({"email_verified": false}), "/login?error=sso_not_allowed"),
        (json!({"email": "ann@corp.example.evil"}), "/login?error=sso_not_allowed"),
        (json!({"email": null}), "/login?error=sso_not_allowed"),
        (json!({"nonce": "another"}), "/login?error=sso_failed"),
        (json!({"aud": "another"}), "/login?error=sso_failed"),
        (json!({"iss": "https://evil.example"}), "/login?error=sso_failed"),
        (json!({"exp": 1}), "/login?error=sso_failed"),
        (json!({"azp": "another"}), "/login?error=sso_failed"),
    ] {
        provider.says(claims.clone());
        assert_eq!(log_in(&mut stranger, &provider).await, (302, ending.to_owned()), "{claims}");
        assert!(!stranger.cookies.contains_key("access_token"), "{claims}");
    }
    provider.says(json!({}));
    *provider.other_key.lock().unwrap() = Some(key());
    assert_eq!(log_in(&mut stranger, &provider).await, (302, "/login?error=sso_failed".to_owned()));
    *provider.other_key.lock().unwrap() = None;
    assert_eq!(log_in(&mut stranger, &provider).await.1, "/auth/callback?next=%2Fworkspace%2Fchats%2F7");
}

#[tokio::test]
async fn only_a_login_that_began_here_ends_here() {
    let (provider, _task) = Provider::start().await;
    let gateway = gateway(&provider, "").await;
    let mut browser = Browser::new(&gateway);
    let (_, there, _) = follow(&mut browser, "/api/v1/auth/oauth/corp?next=//evil.example").await;
    let (code, asked) = provider.approve(&there);
    let callback = |state: &str| format!("/api/v1/auth/callback/corp?code={code}&state={state}");
    // A link that somebody else began with their own account.
    let mut victim = Browser::new(&gateway);
    assert_eq!(follow(&mut victim, &callback(&asked["state"])).await.0, 403);
    assert_eq!(follow(&mut browser, &callback("another")).await.0, 403);
    assert_eq!(follow(&mut browser, "/api/v1/auth/callback/corp?code=x").await.0, 400);
    assert_eq!(follow(&mut browser, "/api/v1/auth/callback/none?code=x&state=y").await.0, 404);
    assert_eq!(follow(&mut browser, "/api/v1/auth/oauth/none").await.0, 404);
    assert_eq!(
        follow(&mut browser, "/api/v1/auth/callback/corp?error=access_denied").await.1,
        "/login?error=sso_failed"
    );
    // A session of ours is no state, and a state no session.
    let mut swapped = browser.clone();
    swapped.cookies.insert("access_token".to_owned(), browser.cookies["df_oidc_state_corp"].clone());
    assert_eq!(swapped.get("/api/v1/auth/me").await.0, 401);
    assert_eq!(follow(&mut browser, &callback(&asked["state"])).await.1, "/auth/callback?next=%2Fworkspace");
    // The code is spent, and what was remembered is gone.
    assert!(browser.cookies["df_oidc_state_corp"].is_empty());
}

#[tokio::test]
async fn a_provider_that_is_away_is_said_to_be() {
    let (mut provider, task) = Provider::start().await;
    task.abort();
    let _ = task.await;
    provider.url = "http://127.0.0.1:9".to_owned();
    let gateway = gateway(&provider, "").await;
    let (status, _, body) = follow(&mut Browser::new(&gateway), "/api/v1/auth/oauth/corp").await;
    assert_eq!((status, body.contains("identity provider")), (502, true), "{body}");
    let off = Gateway::start_with("auth:\n  enabled: true\n").await;
    assert_eq!(off.get("/api/v1/auth/providers").await.1, json!({"providers": []}));
    assert_eq!(off.get("/api/v1/auth/oauth/corp").await.0, 404);
}
