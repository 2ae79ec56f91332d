use super::*;
use deerflow_core::ModelErrorKind as Kind;
use pretty_assertions::assert_eq;

fn context() -> ErrorContext {
    ErrorContext {
        name: "main".into(),
        model: "gpt-x".into(),
        url: "https://user:pw@api.example.com/v1/chat/completions?key=q".parse().unwrap(),
        key_variable: Some("OPENAI_API_KEY"),
        has_key: true,
        secrets: vec!["sk-very-secret".to_owned().into()],
    }
}

fn kind(status: Option<u16>, body: &str) -> Kind {
    context().provider_error(status, body).kind
}

#[test]
fn provider_words_become_what_can_be_done() {
    let cases = [
        (
            Some(429),
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            Kind::Quota,
        ),
        (Some(402), r#"{"error":{"message":"Insufficient Balance"}}"#, Kind::Quota),
        (Some(400), r#"{"error":{"message":"账户欠费"}}"#, Kind::Quota),
        (Some(401), r#"{"error":{"message":"Incorrect API key provided"}}"#, Kind::Auth),
        (Some(403), "", Kind::Auth),
        (
            Some(429),
            r#"{"error":{"code":"limit_burst_rate","message":"Request rate increased too quickly"}}"#,
            Kind::BurstRate,
        ),
        (Some(429), r#"{"error":{"message":"Rate limit reached"}}"#, Kind::Busy),
        (Some(529), r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Kind::Busy),
        (None, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Kind::Busy),
        (None, r#"{"error":{"message":"服务繁忙,请稍后重试"}}"#, Kind::Busy),
        (Some(500), "oops", Kind::Transient),
        (Some(502), "<html><body>Bad Gateway</body></html>", Kind::Transient),
        (
            Some(404),
            r#"{"error":{"message":"The model `gpt-x` does not exist","code":"model_not_found"}}"#,
            Kind::UnknownModel,
        ),
        (Some(404), r#"{"error":{"message":"model \"qwen3\" not found, try pulling it first"}}"#, Kind::UnknownModel),
        (Some(400), r#"{"error":{"message":"Model Not Exist"}}"#, Kind::UnknownModel),
        (Some(404), "404 page not found", Kind::BadRequest),
        (
            Some(400),
            r#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 8192"}}"#,
            Kind::ContextLength,
        ),
        (
            Some(400),
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens"}}"#,
            Kind::ContextLength,
        ),
        (Some(400), r#"{"error":{"message":"tool_calls must be followed by tool messages"}}"#, Kind::BadRequest),
    ];
    for (status, body, expected) in cases {
        assert_eq!(kind(status, body), expected, "{status:?} {body}");
    }
}

#[test]
fn keys_never_show_even_when_the_provider_repeats_them() {
    let error = context().provider_error(Some(401), r#"{"error":{"message":"bad key sk-very-secret"}}"#);
    let shown = error.to_string() + &format!("{error:?}");
    assert!(!shown.contains("sk-very-secret"), "{shown}");
    assert_eq!(
        error.to_string(),
        "model `main` at api.example.com: HTTP 401: bad key [redacted]; hint: correct the environment variable \
         OPENAI_API_KEY, or `api_key` of model `main` in config.yaml"
    );
    let missing = context().provider_error(Some(404), "404 page not found");
    assert_eq!(
        missing.hint.unwrap(),
        "nothing answers at https://api.example.com/v1/chat/completions: correct `base_url`"
    );
    assert!(!format!("{:?}", context()).contains("sk-very-secret"));
}

#[test]
fn an_unknown_model_lists_what_the_server_offers() {
    let body = r#"{"error":{"message":"model not found","available_models":["a",{"id":"b"}]}}"#;
    assert_eq!(context().provider_error(Some(404), body).hint.unwrap(), "the provider offers: a, b");
}

#[test]
fn every_shape_of_error_body_gives_its_words() {
    let words = |body: &str| Said::read(body).message;
    assert_eq!(words(r#"{"error":"plain"}"#), "plain");
    assert_eq!(words(r#"{"detail":"fastapi"}"#), "fastapi");
    assert_eq!(words(r#"{"message":"flat"}"#), "flat");
    assert_eq!(words(r#"[{"error":{"message":"wrapped"}}]"#), "wrapped");
    assert_eq!(
        words(r#"{"error":{"message":"Provider returned error","metadata":{"raw":"inner"}}}"#),
        "Provider returned error: inner"
    );
    assert_eq!(words("<html><h1>502</h1> Bad</html>"), "502 Bad");
    let validation =
        r#"{"detail":[{"msg":"field required","input":{"content":"my quota of credit"}},{"msg":"too short"}]}"#;
    assert_eq!(words(validation), "field required; too short");
    assert_eq!(kind(Some(422), validation), Kind::BadRequest);
    assert_eq!(words(r#"{"code":7}"#), r#"{"code":7}"#);
}
