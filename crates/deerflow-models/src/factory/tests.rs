use super::*;
use pretty_assertions::assert_eq;
use serde_json::json;

fn profile(value: Value) -> ModelProfile {
    serde_json::from_value(value).unwrap()
}

fn failure(value: Value, env: EnvLookup<'_>) -> ModelError {
    create_chat_model(&profile(value), env).err().unwrap()
}

#[test]
fn a_missing_key_is_said_before_anything_is_sent() {
    let error = failure(json!({"name": "main", "use": "openai", "model": "gpt-x"}), &|_| None);
    assert_eq!(error.kind, ModelErrorKind::Auth);
    assert_eq!(
        error.to_string(),
        "model `main` at api.openai.com: there is no key; hint: set the environment variable OPENAI_API_KEY, or `api_key` of \
         model `main` in config.yaml"
    );
    let env = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "k".to_owned());
    assert!(create_chat_model(&profile(json!({"name": "c", "use": "claude", "model": "x"})), &env).is_ok());
    let local = json!({"name": "l", "use": "openai", "model": "x", "base_url": "http://10.0.0.1:8000/v1"});
    assert!(create_chat_model(&profile(local), &|_| None).is_ok());
    assert!(create_chat_model(&profile(json!({"name": "o", "use": "ollama", "model": "qwen3"})), &|_| None).is_ok());
}

#[test]
fn what_cannot_be_used_says_why() {
    let of = |value: Value| failure(value, &|_| Some("key".to_owned())).to_string();
    let offline = of(json!({"name": "m", "use": "offline", "model": ""}));
    assert!(offline.contains("offline"), "{offline}");
    let replay = of(json!({"name": "m", "use": "replay", "model": "x"}));
    assert!(replay.contains("`path`"), "{replay}");
    let missing = of(json!({"name": "m", "use": "replay", "model": "x", "path": "/nowhere/at/all.jsonl"}));
    assert!(missing.contains("/nowhere/at/all.jsonl") && missing.contains("record_to"), "{missing}");
    let unset = of(json!({"name": "m", "use": "openai", "model": "x", "$unset": ["api_key=MY_KEY"]}));
    assert!(unset.contains("MY_KEY"), "{unset}");
    for key in ["quirks", "dialect"] {
        let quirks = of(json!({"name": "m", "use": "openai", "model": "x", key: "deepsek"}));
        assert!(quirks.contains("there are no quirks \"deepsek\"; hint: did you mean `deepseek`?"), "{quirks}");
    }
    let header = of(json!({"name": "m", "use": "openai", "model": "x", "headers": {"X-A": "se\ncret"}}));
    assert!(header.contains("X-A") && !header.contains("cret"), "{header}");
    let url = of(json!({"name": "m", "use": "openai", "model": "x", "base_url": "localhost:8000"}));
    assert!(url.contains("base_url"), "{url}");
}

#[tokio::test]
async fn a_password_within_the_address_never_shows() {
    use crate::{Transport, WireRequest, WireResponse};
    use futures::StreamExt as _;
    use futures::future::BoxFuture;
    /// Repeats the address in its error reply.
    struct Echo;
    impl Transport for Echo {
        fn send(&self, request: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>> {
            let said = format!("no such path: {}", request.url);
            let body = futures::stream::iter([Ok(said.into())]).boxed();
            let response = WireResponse { status: 404, headers: HeaderMap::new(), body };
            Box::pin(std::future::ready(Ok(response)))
        }
    }
    for base in ["http://u:hunter%212@127.0.0.1:1/v1", "http://hunter%212@127.0.0.1:1/v1"] {
        let profile = profile(json!({"name": "m", "use": "openai", "model": "x", "base_url": base}));
        for transport in [Some(Arc::new(Echo) as Arc<dyn Transport>), None] {
            let answered = transport.is_some();
            let model = create(&profile, &ModelOverrides::default(), &|_| None, transport).unwrap();
            let events = model.stream(deerflow_core::ChatRequest::default(), Default::default());
            let error = events.map(Result::err).collect::<Vec<_>>().await.remove(0).unwrap();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter"), "{shown}");
            assert!(shown.contains("127.0.0.1:1"), "{shown}");
            assert_eq!(error.kind, if answered { ModelErrorKind::BadRequest } else { ModelErrorKind::Unreachable });
            assert_eq!(shown.contains("[redacted]"), answered, "{shown}");
        }
    }
    let wrong =
        failure(json!({"name": "m", "use": "openai", "model": "x", "base_url": "ftp://u:hunter2@h"}), &|_| None);
    assert!(!format!("{wrong} {wrong:?}").contains("hunter2"), "{wrong}");
}

#[test]
fn the_method_is_added_to_the_address_unless_it_is_there() {
    let of = |base: &str, suffix: &str| method_url(&base.parse().unwrap(), suffix).to_string();
    assert_eq!(of("https://a.example/v1/", "chat/completions"), "https://a.example/v1/chat/completions");
    assert_eq!(
        of("https://a.example/v1/chat/completions", "chat/completions"),
        "https://a.example/v1/chat/completions"
    );
    assert_eq!(
        of("https://a.example/openai?api-version=1", "chat/completions"),
        "https://a.example/openai/chat/completions?api-version=1"
    );
    assert_eq!(of("https://a.example/v1", "responses"), "https://a.example/v1/responses");
    assert_eq!(of("https://a.example/codex/responses", "responses"), "https://a.example/codex/responses");
    let copied = without_method("https://a.example/v1/chat/completions/".parse().unwrap(), "responses");
    assert_eq!(copied.to_string(), "https://a.example/v1");
    assert_eq!(of("https://api.anthropic.com", "v1/messages"), "https://api.anthropic.com/v1/messages");
    assert_eq!(of("https://a.example/anthropic/v1", "v1/messages"), "https://a.example/anthropic/v1/messages");
    assert_eq!(of("https://a.example/v1/messages", "v1/messages"), "https://a.example/v1/messages");
}

#[test]
fn keys_are_marked_so_that_no_log_shows_them() {
    let claude = profile(
        json!({"name": "m", "use": "anthropic", "model": "x", "betas": ["a", "b"], "headers": {"X-Tenant": "t-9"}}),
    );
    let url = "https://api.anthropic.com/v1/messages".parse().unwrap();
    let of = |key: &str| headers(&claude, ProviderKind::Anthropic, &url, Some(&Secret::from(key))).unwrap();
    let plain = of("sk-ant-1");
    assert_eq!(
        (&plain["x-api-key"], &plain["anthropic-beta"]),
        (&"sk-ant-1".parse().unwrap(), &"a,b".parse().unwrap())
    );
    assert!(!format!("{plain:?}").contains("sk-ant-1") && !format!("{plain:?}").contains("t-9"));
    let token = of("sk-ant-oat-1");
    assert_eq!(token[AUTHORIZATION], "Bearer sk-ant-oat-1");
    assert_eq!(token["anthropic-beta"], "oauth-2025-04-20,a,b");
    assert!(token.get("x-api-key").is_none());
}

#[test]
fn the_key_of_the_host_comes_before_the_key_of_the_protocol() {
    let openai = resolve_provider("openai").unwrap();
    assert_eq!(key_variables(openai, "openai"), ["OPENAI_API_KEY"]);
    assert_eq!(key_variables(openai, "deepseek"), ["DEEPSEEK_API_KEY", "OPENAI_API_KEY"]);
    assert_eq!(key_variables(openai, "gemini"), ["GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"]);
    assert_eq!(key_variables(openai, "generic"), ["OPENAI_API_KEY"]);
    assert_eq!(key_variables(resolve_provider("anthropic").unwrap(), "generic"), ["ANTHROPIC_API_KEY"]);
    let gemini = profile(json!({"name": "g", "use": "openai", "model": "gemini-3-pro", "google_api_key": "g-1"}));
    assert_eq!(key(&gemini, &["X"], &|_| Some("env".into())).unwrap().expose(), "g-1");
    let plain = profile(json!({"name": "g", "use": "openai", "model": "x", "api_key": " "}));
    assert_eq!(key(&plain, &["A", "B"], &|name| (name == "B").then(|| "b".into())).unwrap().expose(), "b");
}
