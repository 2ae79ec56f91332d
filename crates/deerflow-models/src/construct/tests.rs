use super::*;
use crate::settings::Settings;
use pretty_assertions::assert_eq;

fn profile(extra: Value) -> ModelProfile {
    let mut base = object(json!({"name": "m", "use": "openai", "model": "x"}));
    base.extend(object(extra));
    serde_json::from_value(Value::Object(base)).unwrap()
}
fn made(extra: Value) -> Construction {
    construct(&profile(extra), &ModelOverrides::default()).unwrap()
}
fn settings(extra: Value) -> Settings {
    Settings::of(&made(extra))
}
fn off(extra: Value) -> Value {
    Value::Object(made(extra).thinking_off)
}

#[test]
fn step_1_a_provider_that_is_not_there_says_what_to_use() {
    let error = construct(&profile(json!({"use": "opena"})), &ModelOverrides::default()).unwrap_err();
    assert!(error.message.contains("did you mean `openai`?"), "{error}");
    assert_eq!(made(json!({"use": "langchain_openai:ChatOpenAI"})).provider.name, "openai");
    let codex = made(json!({"use": "deerflow.models.openai_codex_provider:CodexChatModel"}));
    assert_eq!(codex.provider.kind, ProviderKind::Codex);
    assert_eq!(made(json!({"use": "src.models.openai_codex_provider:CodexChatModel"})).provider.name, "codex");
}

#[test]
fn step_1_who_wants_content_blocks_gets_the_adapter_that_gives_them() {
    let responses = |extra: Value| made(extra).responses;
    assert!(responses(json!({"use_responses_api": true})));
    assert!(responses(json!({"output_version": "responses/v1"})));
    assert!(!responses(json!({"output_version": "responses/v1", "use_responses_api": false})));
    assert!(!responses(json!({"output_version": "v0"})) && !responses(json!({})));
    let claude = made(json!({"use": "anthropic", "use_responses_api": true}));
    assert!(!claude.responses && claude.remarks[0].contains("no effect with `anthropic`"), "{:?}", claude.remarks);
    let unknown = made(json!({"output_version": "v9"})).remarks;
    assert!(unknown[0].contains("v9"), "{unknown:?}");
}

#[test]
fn step_2_what_steers_us_is_not_sent_and_what_is_null_is_absent() {
    let got = made(json!({
        "display_name": "X", "pricing": {"input_per_million": 1}, "supports_vision": true, "context_window": 1000,
        "record_to": "tape", "streaming": false, "max_completion_tokens": 9, "seed": null, "top_p": 0.5,
        "model_kwargs": {"a": {"c": 2}}, "extra_body": {"a": {"b": 1}}, "temperature": 0.25
    }));
    assert_eq!(Value::Object(got.body), json!({"top_p": 0.5, "a": {"c": 2, "b": 1}, "temperature": 0.25}));
}

#[test]
fn step_3_overrides_win_over_the_profile_and_nothing_overrides_with_nothing() {
    let base = profile(json!({"temperature": 0.2, "max_tokens": 100}));
    let overrides = ModelOverrides { temperature: Some(0.9), max_tokens: Some(7), ..ModelOverrides::default() };
    let got = construct(&base, &overrides).unwrap();
    assert_eq!((&got.body["temperature"], got.profile.max_tokens), (&json!(0.9), Some(7)));
    let got = construct(&base, &ModelOverrides::default()).unwrap();
    assert_eq!((&got.body["temperature"], got.profile.max_tokens), (&json!(0.2), Some(100)));
}

#[test]
fn step_4_thinking_merges_into_the_enabled_settings_and_needs_a_model_that_thinks() {
    let thinks = json!({
        "supports_thinking": true, "thinking": {"type": "enabled"},
        "when_thinking_enabled": {"thinking": {"budget_tokens": 5}, "extra_body": {"k": 1}}
    });
    assert_eq!(
        Value::Object(made(thinks.clone()).thinking_on),
        json!({"thinking": {"budget_tokens": 5, "type": "enabled"}, "k": 1})
    );
    let required = ModelOverrides { require_thinking: true, ..ModelOverrides::default() };
    assert!(construct(&profile(thinks), &required).is_ok());
    // No settings for it: nothing to refuse.
    assert!(construct(&profile(json!({})), &required).is_ok());
    let cannot = json!({"thinking": {"type": "enabled"}});
    let error = construct(&profile(cannot.clone()), &required).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert_eq!(error.hint.as_deref(), Some("set `supports_thinking: true`"));
    // Without that demand the model is made, does not think, and says why.
    let made = made(cannot);
    assert!(made.remarks[0].contains("no effect"), "{:?}", made.remarks);
    assert_eq!(Settings::of(&made).switch(true), JsonMap::new());
}

#[test]
fn step_4_comes_after_step_3_so_that_what_thinking_needs_holds() {
    let base = profile(json!({
        "supports_thinking": true, "when_thinking_enabled": {"temperature": 1, "thinking": {"type": "enabled"}}
    }));
    let overrides = ModelOverrides { temperature: Some(0.1), ..ModelOverrides::default() };
    let settings = Settings::of(&construct(&base, &overrides).unwrap());
    let sent = |on: bool| {
        let mut body = settings.body.clone();
        settings.put_switch(&mut body, &settings.switch(on), on);
        body["temperature"].clone()
    };
    assert_eq!((sent(true), sent(false)), (json!(1), json!(0.1)));
}

#[test]
fn step_4_replaces_a_key_and_step_5_goes_into_it() {
    let settings = settings(json!({
        "supports_thinking": true, "reasoning": {"effort": "low"},
        "extra_body": {"chat_template_kwargs": {"a": 1}, "top_k": 20},
        "when_thinking_enabled": {
            "reasoning": {"max_tokens": 9}, "extra_body": {"chat_template_kwargs": {"enable_thinking": true}}
        }
    }));
    let sent = |on: bool| {
        let mut body = settings.body.clone();
        settings.put_switch(&mut body, &settings.switch(on), on);
        Value::Object(body)
    };
    let on = json!({"reasoning": {"max_tokens": 9}, "chat_template_kwargs": {"enable_thinking": true}, "top_k": 20});
    assert_eq!(sent(true), on);
    let off = json!({
        "reasoning": {"effort": "low"}, "chat_template_kwargs": {"a": 1, "enable_thinking": false}, "top_k": 20
    });
    assert_eq!(sent(false), off);
}

#[test]
fn step_5_turning_thinking_off_mirrors_what_turns_it_on_and_the_first_match_counts() {
    let effort = |enabled: Value| json!({"supports_reasoning_effort": true, "when_thinking_enabled": enabled});
    assert_eq!(
        off(effort(
            json!({"extra_body": {"thinking": {"type": "enabled"}, "chat_template_kwargs": {"thinking": true}}})
        )),
        json!({"thinking": {"type": "disabled"}, "reasoning_effort": "minimal"})
    );
    assert_eq!(
        off(effort(json!({"extra_body": {"chat_template_kwargs": {"enable_thinking": true, "other": 1}}}))),
        json!({"chat_template_kwargs": {"enable_thinking": false}})
    );
    assert_eq!(
        off(effort(json!({"extra_body": {"chat_template_kwargs": {"thinking": true, "enable_thinking": true}}}))),
        json!({"chat_template_kwargs": {"thinking": false, "enable_thinking": false}})
    );
    assert_eq!(off(effort(json!({"extra_body": {"enable_thinking": true}}))), json!({"enable_thinking": false}));
    assert_eq!(
        off(effort(json!({"thinking": {"type": "enabled", "budget_tokens": 1}}))),
        json!({"thinking": {"type": "disabled"}})
    );
    assert_eq!(off(json!({"thinking": {"type": "enabled"}})), json!({"thinking": {"type": "disabled"}}));
    assert_eq!(off(effort(json!({"reasoning_effort": "high"}))), json!({}));
    assert_eq!(off(json!({})), json!({}));
    let explicit = json!({
        "when_thinking_disabled": {"extra_body": {"a": 1}},
        "when_thinking_enabled": {"extra_body": {"thinking": {"type": "enabled"}}}
    });
    assert_eq!(off(explicit), json!({"a": 1}));
}

#[test]
fn step_5_the_effort_that_goes_with_no_thinking_stands_against_what_a_request_asks() {
    let derived = settings(json!({
        "supports_reasoning_effort": true, "when_thinking_enabled": {"extra_body": {"thinking": {"type": "enabled"}}}
    }));
    let effort = |settings: &Settings, on: bool| settings.effort_for(Some("high"), &settings.switch(on));
    assert_eq!(effort(&derived, false).as_deref(), Some("minimal"));
    assert_eq!(effort(&derived, true).as_deref(), Some("high"));
    let explicit =
        settings(json!({"supports_reasoning_effort": true, "when_thinking_disabled": {"reasoning_effort": "low"}}));
    assert_eq!(effort(&explicit, false).as_deref(), Some("high"));
}

#[test]
fn step_6_drops_every_effort_also_the_one_of_step_5() {
    let every = json!({
        "reasoning_effort": "low", "supports_thinking": true,
        "when_thinking_enabled": {"reasoning_effort": "high", "extra_body": {"thinking": {"type": "enabled"}}}
    });
    let got = made(every.clone());
    assert_eq!(Value::Object(got.thinking_off.clone()), json!({"thinking": {"type": "disabled"}}));
    assert_eq!(Value::Object(got.thinking_on.clone()), json!({"thinking": {"type": "enabled"}}));
    let settings = Settings::of(&got);
    for on in [true, false] {
        assert_eq!(settings.effort_for(Some("high"), &settings.switch(on)), None);
    }
    let mut takes = object(every);
    takes.insert("supports_reasoning_effort".into(), json!(true));
    let settings = Settings::of(&made(Value::Object(takes)));
    assert_eq!(settings.effort_for(None, &settings.switch(true)).as_deref(), Some("high"));
}

/// BR-027
#[test]
fn step_7_api_base_is_base_url_which_wins_when_both_are_there() {
    let one = made(json!({"api_base": "http://a.example/v1"}));
    assert_eq!(one.profile.base_url.as_deref(), Some("http://a.example/v1"));
    assert_eq!((one.body.get("api_base"), one.remarks.as_slice()), (None, &[][..]));
    let both = made(json!({"api_base": "http://a.example/v1", "base_url": "http://b.example/v1"}));
    assert_eq!(both.profile.base_url.as_deref(), Some("http://b.example/v1"));
    assert!(both.remarks[0].contains("`api_base`") && both.remarks[0].contains("wins"), "{:?}", both.remarks);
    assert_eq!(both.body.get("api_base"), None);
}

#[test]
fn step_8_every_reply_has_a_longest_silence() {
    let silence = |extra: Value| made(extra).profile.stream_chunk_timeout;
    assert_eq!(silence(json!({})), Some(240.0));
    assert_eq!(silence(json!({"stream_chunk_timeout": 5})), Some(5.0));
    assert_eq!(silence(json!({"use": "codex"})), Some(300.0));
    assert_eq!(silence(json!({"use": "mindie"})), Some(900.0));
}

#[test]
fn step_9_codex_is_never_sent_a_bound_wherever_it_came_from() {
    let overrides = ModelOverrides { max_tokens: Some(9), ..ModelOverrides::default() };
    let base = profile(json!({
        "use": "codex", "max_tokens": 1, "max_completion_tokens": 2, "extra_body": {"max_output_tokens": 3},
        "supports_thinking": true, "when_thinking_enabled": {"max_tokens": 4}
    }));
    let settings = Settings::of(&construct(&base, &overrides).unwrap());
    assert_eq!(settings.max_tokens, None);
    assert_eq!((settings.body.clone(), settings.switch(true)), (JsonMap::new(), JsonMap::new()));
}

#[test]
fn step_10_mindie_is_asked_once_more_unless_the_profile_says_otherwise() {
    let retries = |extra: Value| made(extra).profile.max_retries;
    assert_eq!(retries(json!({"use": "mindie"})), Some(1));
    assert_eq!(retries(json!({"use": "mindie", "max_retries": 4})), Some(4));
    assert_eq!(retries(json!({})), None);
    let connect =
        |extra: Value| crate::settings::Timeouts::new(&made(extra).profile).connect.map(|wait| wait.as_secs());
    assert_eq!(connect(json!({"use": "mindie"})), Some(30));
    assert_eq!(connect(json!({"use": "mindie", "connect_timeout": 3})), Some(3));
    assert_eq!(connect(json!({})), None);
}

#[test]
fn step_11_streams_count_tokens_unless_the_profile_says_otherwise() {
    let asks = |extra: Value| settings(extra).stream_usage;
    assert!(asks(json!({})));
    assert!(!asks(json!({"stream_usage": false})));
    assert_eq!(made(json!({})).profile.extras.0["stream_usage"], json!(true));
    assert_eq!(made(json!({"use": "anthropic"})).profile.extras.0.get("stream_usage"), None);
}

#[test]
fn step_12_unknown_keys_are_named_with_the_one_that_was_meant() {
    let remarks = |extra: Value| made(extra).remarks;
    assert_eq!(
        remarks(json!({"temprature": 1, "zzzzzz": 2, "top_p": 1, "seed": 3})),
        [
            "unknown key `temprature`, did you mean `temperature`?; it is passed on as it is",
            "unknown key `zzzzzz`; it is passed on as it is"
        ]
    );
    assert_eq!(remarks(json!({"use": "anthropic", "temprature": 1})), Vec::<String>::new());
    // What steps 7 and 11 took away or added is not unknown.
    assert_eq!(remarks(json!({"api_base": "http://a.example"})), Vec::<String>::new());
    let text = json!({"use": "anthropic", "quirks": "vllm", "tool_call_format": "xml"});
    let vain = remarks(text);
    assert!(vain.len() == 2 && vain.iter().all(|remark| remark.contains("no effect here")), "{vain:?}");
    let both = remarks(json!({"tool_call_format": "native", "tool_calls_in_text": true}));
    assert_eq!(both, ["`tool_calls_in_text` has no effect beside `tool_call_format`"]);
    let left_out = remarks(json!({"use_responses_api": true, "stop": ["x"], "seed": 3}));
    assert!(left_out.len() == 2 && left_out.iter().all(|remark| remark.contains("no counterpart")), "{left_out:?}");
}

#[test]
fn constructing_twice_changes_nothing() {
    let first = made(json!({
        "api_base": "http://a.example/v1", "use": "mindie", "reasoning_effort": "low", "thinking": {"type": "enabled"}
    }));
    let second = construct(&first.profile, &ModelOverrides::default()).unwrap();
    assert_eq!((second.profile, second.body), (first.profile, first.body));
}
