use super::{is_sensitive_key, mask_source, redact_value, without_password};
use serde_json::json;

#[test]
fn keys_that_say_secret_are_secret() {
    for key in
        ["api_key", "apiKey", "gemini_api_key", "bot-token", "client_secret", "DB_PASSWORD", "Authorization", "api_kye"]
    {
        assert!(is_sensitive_key(key), "{key}");
    }
    for key in ["name", "base_url", "model", "enabled"] {
        assert!(!is_sensitive_key(key), "{key}");
    }
}

#[test]
fn values_are_redacted_and_limits_stay() {
    let mut value = json!({
        "models": [{"name": "a", "api_key": "sk-1", "max_tokens": 4096, "headers": {"X-Tenant": "t-9"}}],
        "api_keys": ["sk-2", "sk-3"], "password": 1234, "url": "redis://u:pw@host:6379/0", "token_usage": {"enabled": true}
    });
    redact_value(&mut value);
    assert_eq!(
        value,
        json!({
            "models": [{"name": "a", "api_key": "[redacted]", "max_tokens": 4096, "headers": {"X-Tenant": "[redacted]"}}],
            "api_keys": ["[redacted]", "[redacted]"], "password": "[redacted]", "url": "redis://u:[redacted]@host:6379/0",
            "token_usage": {"enabled": true}
        })
    );
}

#[test]
fn a_url_without_password_is_left_alone() {
    assert_eq!(without_password("https://example.com/a@b:c"), None);
    assert_eq!(without_password("postgres://u@h/db"), None);
    assert_eq!(without_password("postgres://u:p@ss@h/db").as_deref(), Some("postgres://u:[redacted]@h/db"));
}

#[test]
fn snippets_hide_secrets_and_keep_positions() {
    let text = "models:\n  - name: é\n    api_key: sk-é9\n    inline: {token: abc, x: 1}\n    base_url: https://x\n\
                secret: |\n  line one\n  two\nkeys:\n- one\n- two\nheaders:\n  X-A: b\nvar_key: $NAME\ntitle: t\n\
                token_usage:\n  enabled: true\nmax_tokens: 5\napi_kye: sk\nurl: 'redis://u:pw@h/0'\n";
    let masked = mask_source(text);
    assert_eq!(masked.len(), text.len());
    assert_eq!(
        masked,
        "models:\n  - name: é\n    api_key: ******\n    inline: {token: **********\n    base_url: https://x\n\
         secret: |\n  ********\n  ***\nkeys:\n*****\n*****\nheaders:\n  X-A: *\nvar_key: $NAME\ntitle: t\n\
         token_usage:\n  enabled: true\nmax_tokens: 5\napi_kye: **\nurl: 'redis://u:**@h/0'\n"
    );
}
