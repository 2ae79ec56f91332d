//! From a provider's words to what can be done. The word lists are the original's.

use super::Said;
use deerflow_core::ModelErrorKind;

const QUOTA: &[&str] = &[
    "insufficient_quota",
    "usage_limit_reached",
    "usage_not_included",
    "quota",
    "billing",
    "credit",
    "payment",
    "insufficient balance",
    "余额不足",
    "超出限额",
    "额度不足",
    "欠费",
];
const AUTH: &[&str] = &[
    "authentication",
    "unauthorized",
    "invalid api key",
    "invalid_api_key",
    "incorrect api key",
    "api key not valid",
    "api key expired",
    "api_key_invalid",
    "permission",
    "forbidden",
    "access denied",
    "无权",
    "未授权",
];
const BURST: &[&str] =
    &["limit_burst_rate", "rate increased too quickly", "burst rate", "请求速率增长过快", "突发速率"];
const BUSY: &[&str] = &[
    "server busy",
    "temporarily unavailable",
    "try again later",
    "please retry",
    "please try again",
    "overloaded",
    "high demand",
    "rate limit",
    "rate_limit",
    "负载较高",
    "服务繁忙",
    "稍后重试",
    "请稍后重试",
];
const CONTEXT: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "context length",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "exceeds the maximum number of tokens",
    "range of input length",
    "exceed_context_size",
    "request_too_large",
    "上下文长度",
];
const UNKNOWN_MODEL: &[&str] = &[
    "model_not_found",
    "model not found",
    "model not exist",
    "model does not exist",
    "unknown model",
    "invalid model",
    "not a valid model",
    "no such model",
    "模型不存在",
];

/// First match counts.
pub(crate) fn classify(status: Option<u16>, said: &Said) -> ModelErrorKind {
    let says = |words: &[&str]| words.iter().any(|word| said.all.contains(word));
    // Only a refusal of this very request can mean that it is too long or names a wrong model.
    let refusal = matches!(status, None | Some(400 | 404 | 413 | 422));
    let names_model = said.all.contains("model")
        && ["not found", "does not exist", "not exist", "not supported", "not_found_error", "try pulling it"]
            .iter()
            .any(|word| said.all.contains(word));
    match status {
        _ if refusal && says(CONTEXT) => ModelErrorKind::ContextLength,
        Some(413) => ModelErrorKind::ContextLength,
        _ if refusal && says(UNKNOWN_MODEL) => ModelErrorKind::UnknownModel,
        Some(404) if names_model => ModelErrorKind::UnknownModel,
        Some(400 | 422) if names_model && said.all.contains("does not exist") => ModelErrorKind::UnknownModel,
        Some(402) => ModelErrorKind::Quota,
        _ if says(QUOTA) => ModelErrorKind::Quota,
        Some(401 | 403) => ModelErrorKind::Auth,
        _ if says(AUTH) => ModelErrorKind::Auth,
        _ if says(BURST) => ModelErrorKind::BurstRate,
        Some(429 | 503 | 529) => ModelErrorKind::Busy,
        Some(408 | 409 | 425 | 500..=599) => ModelErrorKind::Transient,
        _ if says(BUSY) => ModelErrorKind::Busy,
        None if ["server_error", "internal_server_error", "api_error", "internal error"]
            .iter()
            .any(|word| said.all.contains(word)) =>
        {
            ModelErrorKind::Transient
        }
        _ => ModelErrorKind::BadRequest,
    }
}
