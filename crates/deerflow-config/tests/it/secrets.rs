//! Secrets are in none of the ways a configuration can be printed.

use deerflow_config::ModelsSection;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fixture::Fixture;

const TEXT: &str = "\
models:
  - name: a
    use: openai
    model: m
    api_key: sk-plain-1
    gemini_api_key: sk-plain-2
    tokens: x
    headers: {X-Auth: sk-plain-3}
    organization: $SECRET_ORG
    max_tokens: 5
title:
  model_name: $TITLE_TOKEN
database:
  postgres_url: postgres://u:sk-plain-4@h/d
channels:
  telegram: {bot_token: sk-plain-5}
";

fn fixture(text: &str) -> Fixture {
    Fixture::with(text).var("SECRET_ORG", "sk-plain-6").var("TITLE_TOKEN", "sk-plain-7")
}

#[test]
fn effective_values_and_debug_show_no_secret() {
    let config = fixture(TEXT).load().unwrap();
    let models = config.section::<ModelsSection>();
    assert_eq!(models.0[0].extras.0["gemini_api_key"], json!("sk-plain-2"));
    assert_eq!(models.0[0].extras.0["organization"], json!("sk-plain-6"));
    assert_eq!(models.0[0].headers["X-Auth"].expose(), "sk-plain-3");
    for text in [config.effective().to_string(), format!("{config:?}")] {
        assert!(!text.contains("sk-plain"), "{text}");
    }
    let effective = config.effective();
    assert_eq!(effective["models"][0]["api_key"], json!("[redacted]"));
    assert_eq!(effective["models"][0]["max_tokens"], json!(5));
    assert_eq!(effective["title"]["model_name"], json!("[redacted]"));
    assert_eq!(effective["database"]["postgres_url"], json!("postgres://u:[redacted]@h/d"));
}

#[test]
fn problems_show_no_secret() {
    let broken = TEXT
        .replace("model: m", "model: [m]")
        .replace("max_tokens: 5", "max_tokens: -5\n    temperature: $SECRET_ORG\n    api_kye: sk-plain-8")
        .replace("postgres_url", "postgres_ulr")
        .replace("api_key: sk-plain-1", "api_key: [sk-plain-1]");
    let fixture = fixture(&broken);
    let rendered = fixture.rendered();
    assert!(!rendered.contains("sk-plain"), "{rendered}");
    insta::assert_snapshot!(rendered);
    for diagnostic in fixture.check().diagnostics {
        let value = diagnostic.value.unwrap_or_default();
        assert!(!value.contains("sk-plain"), "{value}");
    }
}
