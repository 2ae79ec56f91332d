//! Turns what still fails inside a tool call into a result, and stamps every result with what the model can do about it.

use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, Message, ToolStatus, text};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `additional_kwargs.deerflow_tool_meta`: a tool result in terms of what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolMeta {
    /// `success`, `error` or `partial_success`.
    pub status: String,
    /// Kind of error, if it is one.
    pub error_type: Option<String>,
    /// Whether the model can mend it.
    pub recoverable_by_model: bool,
    /// `continue`, `rewrite_query`, `try_alternative`, `summarize` or `stop`.
    pub recommended_next_action: String,
    /// `exception`, `tool_return`, `content_analysis` or `progress_middleware`.
    pub source: String,
}

impl ToolMeta {
    fn new(status: &str, error_type: Option<&str>, recoverable: bool, action: &str, source: &str) -> Self {
        Self {
            status: status.into(),
            error_type: error_type.map(str::to_owned),
            recoverable_by_model: recoverable,
            recommended_next_action: action.into(),
            source: source.into(),
        }
    }
    /// A gate refused the call: the model can do something else.
    pub(super) fn permission_denied() -> Self {
        Self::new("error", Some("permission"), true, "try_alternative", "tool_return")
    }
    fn error(text: &str, source: &str) -> Self {
        let (kind, _, recoverable, action) = error_kind(text);
        Self::new("error", Some(kind), recoverable, action, source)
    }
}

/// Kind, words that give it away, whether the model can mend it, and what it should do. The first match counts.
const ERROR_KINDS: [(&str, &[&str], bool, &str); 8] = [
    ("auth", &["401", "403", "unauthorized", "authentication", "invalid api key"], false, "stop"),
    ("rate_limited", &["rate limit", "rate limited", "rate_limit"], false, "summarize"),
    (
        "transient",
        &["timeout", "timed out", "connection", "network error", "temporarily unavailable"],
        false,
        "try_alternative",
    ),
    ("config", &["not configured", "not installed", "missing required", "disabled", "no api key"], false, "stop"),
    ("permission", &["permission denied", "access denied", "path traversal", "forbidden"], true, "try_alternative"),
    ("no_results", &["no results found", "no content found", "no images found", "no results"], true, "rewrite_query"),
    ("not_found", &["not found", "no such file", "does not exist", "404"], true, "rewrite_query"),
    ("internal", &["unexpected error", "internal error", "500"], false, "stop"),
];

const PARTIAL: [&str; 7] = [
    "partial results",
    "limited results",
    "truncated",
    "results may be incomplete",
    "no results found",
    "no content found",
    "no images found",
];

const NOT_AN_ERROR: [&str; 8] = ["none", "null", "false", "no", "ok", "success", "n/a", ""];

fn error_kind(text: &str) -> (&'static str, &'static [&'static str], bool, &'static str) {
    let text = text.to_lowercase();
    ERROR_KINDS.iter().find(|(_, words, ..)| words.iter().any(|word| contains_word(&text, word))).copied().unwrap_or((
        "unknown",
        &[],
        true,
        "try_alternative",
    ))
}

/// Numbers count only as whole words: port 5004 is no 500 and no 404.
fn contains_word(text: &str, word: &str) -> bool {
    if !word.bytes().all(|b| b.is_ascii_digit()) {
        return text.contains(word);
    }
    text.match_indices(word).any(|(at, _)| {
        let boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        boundary(text[..at].chars().next_back()) && boundary(text[at + word.len()..].chars().next())
    })
}

/// What a finished tool message means.
#[must_use]
pub fn classify(message: &Message) -> ToolMeta {
    let status = message.as_tool().map(|t| t.status).unwrap_or_default();
    let content = message.text();
    let body = content.trim_start();
    let json_error = || match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(map)) => {
            Some(map.get("error").map(|e| e.as_str().map_or_else(|| e.to_string(), str::to_owned)))
        }
        _ => None,
    };
    if let Some(rest) = body.strip_prefix("Error:") {
        return ToolMeta::error(rest, "tool_return");
    }
    if status == ToolStatus::Error {
        return match json_error() {
            Some(Some(text)) => ToolMeta::error(&text, "tool_return"),
            Some(None) => ToolMeta::error("", "tool_return"),
            None => ToolMeta::error(body, "tool_return"),
        };
    }
    if body.starts_with('{')
        && let Some(Some(error)) = json_error()
        && !NOT_AN_ERROR.contains(&error.trim().to_lowercase().as_str())
    {
        return ToolMeta::error(&error, "tool_return");
    }
    if message.name.as_deref() == Some("web_fetch")
        && let Some(meta) = http_title(body.lines().next().unwrap_or_default())
    {
        return meta;
    }
    // Tools say so in their first or last lines; a document that merely contains the word is no partial result.
    let lower = |text: &str| text.to_lowercase();
    let (start, end) = (lower(text::head(body, 300)), lower(text::tail(body, 300)));
    if PARTIAL.iter().any(|marker| start.contains(marker) || end.contains(marker)) {
        return ToolMeta::new("partial_success", None, true, "rewrite_query", "content_analysis");
    }
    ToolMeta::new("success", None, true, "continue", "tool_return")
}

/// A fetched page that is nothing but an HTTP reason phrase.
fn http_title(line: &str) -> Option<ToolMeta> {
    let title = line.trim().trim_start_matches('#').trim().to_lowercase();
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
    let (kind, recoverable, action) = match title {
        "unauthorized" | "proxy authentication required" => ("auth", false, "stop"),
        "forbidden" | "access denied" => ("permission", true, "try_alternative"),
        "not found" => ("not_found", true, "rewrite_query"),
        "too many requests" => ("rate_limited", false, "summarize"),
        "internal server error" | "not implemented" => ("internal", false, "stop"),
        "bad gateway" | "service unavailable" | "gateway timeout" => ("transient", false, "try_alternative"),
        _ => return None,
    };
    Some(ToolMeta::new("error", Some(kind), recoverable, action, "content_analysis"))
}

/// Innermost of the gates around a tool.
#[derive(Debug, Default)]
pub struct ToolErrorHandlingMiddleware;

#[async_trait]
impl Middleware for ToolErrorHandlingMiddleware {
    fn name(&self) -> &'static str {
        "ToolErrorHandlingMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let call = request.call.clone();
        let mut outcome = match next.run(request).await {
            Ok(outcome) => outcome,
            // Control flow and failures that no model can mend.
            Err(error @ (AgentError::Cancelled | AgentError::Store(_) | AgentError::Tool { .. })) => return Err(error),
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => {
                let detail = error.to_string();
                let text = format!(
                    "Error: Tool '{}' failed: {}. Continue with what you have, or choose another tool.",
                    call.name,
                    text::ellipsis(&detail, 500)
                );
                let meta = ToolMeta::error(&detail, "exception");
                let mut outcome = ToolOutcome::error(&call, text);
                outcome.message.additional_kwargs.insert(kwargs::TOOL_META.to_owned(), json!(meta));
                outcome
            }
        };
        if !outcome.message.additional_kwargs.contains_key(kwargs::TOOL_META) {
            let meta = classify(&outcome.message);
            outcome.message.additional_kwargs.insert(kwargs::TOOL_META.to_owned(), json!(meta));
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn kind(message: &Message) -> (String, Option<String>, String) {
        let meta = classify(message);
        (meta.status, meta.error_type, meta.recommended_next_action)
    }
    fn error(text: &str) -> (String, Option<String>, String) {
        kind(&Message::tool_error(text, "c", "t"))
    }
    fn want(status: &str, kind: &str, action: &str) -> (String, Option<String>, String) {
        (status.into(), (!kind.is_empty()).then(|| kind.into()), action.into())
    }

    #[test]
    fn errors_are_told_apart_in_order() {
        for (text, kind, action) in [
            ("Error: 401 Unauthorized", "auth", "stop"),
            ("Error: rate limit, then timeout", "rate_limited", "summarize"),
            ("Error: the command timed out", "transient", "try_alternative"),
            ("Error: search is not configured", "config", "stop"),
            ("Error: Permission denied: /x", "permission", "try_alternative"),
            ("Error: No results found", "no_results", "rewrite_query"),
            ("Error: File not found: a", "not_found", "rewrite_query"),
            ("Error: Unexpected error", "internal", "stop"),
            ("Error: port 5004 is odd", "unknown", "try_alternative"),
            ("{\"error\": \"404\"}", "not_found", "rewrite_query"),
            ("{\"other\": \"404\"}", "unknown", "try_alternative"),
        ] {
            assert_eq!(error(text), want("error", kind, action), "{text}");
        }
    }

    #[test]
    fn a_success_is_looked_at_too() {
        let ok = |text: &str| kind(&Message::tool(text, "c", "t"));
        assert_eq!(ok("fine"), want("success", "", "continue"));
        assert_eq!(ok("{\"error\": \"none\", \"n\": 1}"), want("success", "", "continue"));
        assert_eq!(ok("{\"error\": \"quota: 403\"}"), want("error", "auth", "stop"));
        assert_eq!(ok("Error: not found"), want("error", "not_found", "rewrite_query"));
        assert_eq!(ok("a\n... truncated ..."), want("partial_success", "", "rewrite_query"));
        let long = format!("{}truncated{}", "x".repeat(1000), "y".repeat(1000));
        assert_eq!(ok(&long), want("success", "", "continue"), "the word inside a document means nothing");
        assert_eq!(
            kind(&Message::tool("# 503 Service Unavailable\nx", "c", "web_fetch")),
            want("error", "transient", "try_alternative")
        );
        assert_eq!(kind(&Message::tool("Not found a thing", "c", "web_fetch")), want("success", "", "continue"));
    }
}
