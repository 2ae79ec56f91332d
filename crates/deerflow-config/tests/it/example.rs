//! A file as users of the original have it.

use deerflow_config::{ModelsSection, ProviderKind, Severity};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fixture::{Fixture, TitleConfig, ToolsConfig};

const EXAMPLE: &str = include_str!("../fixtures/config.example.yaml");

fn fixture() -> Fixture {
    let fixture = Fixture::with(EXAMPLE).var("OPENAI_API_KEY", "sk-1").var("VOLCENGINE_API_KEY", "sk-2");
    fixture.var("ANTHROPIC_API_KEY", "sk-3")
}

#[test]
fn a_file_of_the_original_loads_as_it_is() {
    let checked = fixture().check();
    let loud: Vec<_> = checked.diagnostics.iter().filter(|d| d.severity > Severity::Note).collect();
    assert_eq!(loud.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    let config = checked.config.unwrap();
    let models = config.section::<ModelsSection>();
    let summary: Vec<_> = models
        .iter()
        .map(|model| (model.name.as_str(), model.provider().unwrap().dialect(), model.effective_base_url().unwrap()))
        .collect();
    assert_eq!(
        summary,
        [
            ("gpt-4", "openai", "https://api.openai.com/v1".to_owned()),
            ("doubao-seed-1.8", "deepseek", "https://ark.cn-beijing.volces.com/api/v3".to_owned()),
            ("claude-sonnet-4", "anthropic", "https://api.anthropic.com".to_owned()),
            ("qwen3-local", "ollama", "http://localhost:11434/v1".to_owned()),
        ]
    );
    assert_eq!(models.0[2].provider().unwrap().kind, ProviderKind::Anthropic);
    assert_eq!(models.0[0].timeout, Some(600.0));
    assert!(models.0[1].supports_thinking);
    assert_eq!(
        serde_json::to_value(&models.0[1].when_thinking_disabled).unwrap(),
        json!({"extra_body": {"thinking": {"type": "disabled"}}})
    );
    assert_eq!(models.0[2].max_tokens, Some(16_000));
    assert_eq!(serde_json::to_value(&models.0[3].extras).unwrap(), json!({"num_predict": 8192, "reasoning": true}));
    assert_eq!(config.section::<TitleConfig>().max_chars, 60);
    assert_eq!(config.section::<ToolsConfig>().0[0].settings["max_results"], json!(5));
    assert_eq!(config.other("sandbox").unwrap()["use"], json!("deerflow.sandbox.local:LocalSandboxProvider"));
}
