use super::super::parts::{ORIGIN, PARTS};
use super::*;
use proptest::prelude::*;

/// What the interface refuses, written from its reference and from what its errors say.
fn check(body: &Value) -> Result<(), String> {
    let mut waiting: Vec<(Value, Value)> = Vec::new();
    let mut last = Value::Null;
    let contents = body["contents"].as_array().ok_or("no contents")?;
    for (at, content) in contents.iter().enumerate() {
        let fail = |what: &str| Err(format!("content {at}: {what}"));
        let parts = content["parts"].as_array().ok_or("no parts")?;
        if parts.is_empty() {
            return fail("no part");
        }
        if content["role"] == "model" && (at == 0 || last == "model") {
            return fail("the model speaks first, or twice");
        }
        let of = |kind: &str| -> Vec<(Value, Value)> {
            let parts = parts.iter().filter_map(|part| part.get(kind));
            parts.map(|call| (call["id"].clone(), call["name"].clone())).collect()
        };
        if of("functionResponse") != waiting || (!waiting.is_empty() && waiting.len() != parts.len()) {
            return fail("the responses are not those to the calls before");
        }
        let empty =
            |part: &Value| part["text"].as_str().is_some_and(str::is_empty) && part.get("thoughtSignature").is_none();
        if parts.iter().any(empty) {
            return fail("an empty text");
        }
        waiting = of("functionCall");
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|part| !part["thoughtSignature"].is_string()) {
            return fail("the first call is not signed");
        }
        last = content["role"].clone();
    }
    if last != "user" || !waiting.is_empty() {
        return Err("does not end with the user, or with open calls".to_owned());
    }
    Ok(())
}

fn settings(vision: bool) -> Settings {
    let profile = json!({"name": "m", "use": "gemini", "model": "gemini-3-pro", "supports_vision": vision});
    Settings::new(&serde_json::from_value(profile).unwrap(), "gemini")
}

proptest! {
    #[test]
    fn whatever_the_history_the_body_is_one_that_the_interface_takes(
        history in prop::collection::vec(crate::legalise::tests::message(), 0..12),
        slots in prop::collection::vec(prop::sample::select(vec![
            json!({"text": 5, "signature": "S"}), json!({"text": 0, "signature": "S"}), json!({"text": u64::MAX}), json!({"text": 0}),
            json!({"call": "a", "signature": "S"}), json!({"call": "call_0"}), json!({"call": ""}),
            json!({"thought": "t", "signature": "S"}), json!({}), json!(7), json!({"text": "x", "signature": 3}),
        ]), 0..5),
        vision in any::<bool>(),
        results in any::<bool>(),
    ) {
        let history = history.into_iter().map(|mut message| {
            if message.as_ai().is_some() {
                message.response_metadata.insert(ORIGIN.to_owned(), json!("here"));
                message = message.with_kwarg(PARTS, slots.clone());
            }
            Arc::new(message)
        });
        let request = ChatRequest { messages: history.collect(), ..ChatRequest::default() };
        let rules = if results { Rules::gemini() } else { Rules::gemini().without_tool_images() };
        let rules = if vision { rules } else { rules.without_vision() };
        for origin in [Some("here"), Some("there"), None] {
            let body = build(&settings(vision), &rules, &request, origin);
            prop_assert_eq!(check(&body), Ok(()), "{}", body);
        }
    }
}
