//! The schema of the whole file.

use serde_json::{Value, json};

use crate::fixture::registry;

fn errors(instance: &Value) -> Vec<String> {
    let schema = registry().schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_schema_is_stable() {
    insta::assert_json_snapshot!(registry().schema());
}

#[test]
fn the_schema_takes_what_loading_takes() {
    let good = json!({
        "config_version": 34,
        "log_level": "info",
        "models": [
            {"name": "a", "use": "openai", "model": "m", "api_base": "https://x", "max_tokens": "$MAX", "top_p": 0.5,
             "request_timeout": 5, "default_headers": {"a": "b"}, "pricing": {"currency": "USD"}},
        ],
        "title": {"enabled": "$TITLE", "word_limit": 3},
        "tools": null,
        "channels": {"telegram": {}},
        "anything": [1]
    });
    assert_eq!(errors(&good), Vec::<String>::new());
}

#[test]
fn the_schema_refuses_what_loading_refuses() {
    for bad in [
        json!({"title": {"enabld": true}}),
        json!({"title": {"max_words": 0}}),
        json!({"title": {"max_words": "three"}}),
        json!({"models": {}}),
        json!({"models": [{"max_tokens": -1}]}),
        json!({"tools": [{"name": "x"}]}),
        json!({"log_level": "loud"}),
    ] {
        assert_ne!(errors(&bad), Vec::<String>::new(), "{bad}");
    }
}
