use super::*;

#[test]
fn every_name_leads_to_a_row_and_rows_are_unique() {
    let names: std::collections::HashSet<_> = TABLE.iter().map(|quirks| quirks.name).collect();
    assert_eq!(names.len(), TABLE.len());
    for (_, name) in HOSTS.iter().chain(MODELS).chain(ALIASES) {
        assert!(named(name).is_ok(), "{name}");
    }
    let chat = deerflow_config::provider_names().filter(|name| {
        let kind = deerflow_config::resolve_provider(name).unwrap().kind;
        kind == deerflow_config::ProviderKind::OpenAi
    });
    for name in chat {
        assert!(named(name).is_ok(), "{name}");
    }
}

#[test]
fn a_name_that_is_none_says_which_was_meant() {
    assert_eq!(named(" vLLM ").unwrap().name, "vllm");
    assert_eq!(named("deepsek").unwrap_err(), "did you mean `deepseek`?");
    let all = named("klingon").unwrap_err();
    assert!(all.starts_with("there are openai, deepseek, vllm, "), "{all}");
}

#[test]
fn an_imitator_is_recognised_by_address_then_by_model() {
    let name = |url: &str, model: &str| choose("openai", &url.parse().unwrap(), model).name;
    assert_eq!(name("https://api.openai.com/v1", "gpt-5"), "openai");
    assert_eq!(name("https://api.deepseek.com", "x"), "deepseek");
    assert_eq!(name("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "x"), "qwen");
    assert_eq!(name("http://localhost:11434/v1", "qwen3"), "ollama");
    assert_eq!(name("http://10.0.0.5:8000/v1", "deepseek-ai/DeepSeek-V4"), "deepseek");
    assert_eq!(name("http://10.0.0.5:8000/v1", "mymodel"), "generic");
    assert_eq!(choose("vllm", &"https://api.openai.com/v1".parse().unwrap(), "x").name, "vllm");
}
