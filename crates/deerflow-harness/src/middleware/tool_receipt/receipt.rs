//! One call and its result, as facts.

use deerflow_core::message::kwargs;
use deerflow_core::{Content, Message, ToolCall, ToolStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// `additional_kwargs` key of a result's receipt.
pub const TOOL_RECEIPT: &str = "deerflow_tool_receipt";
/// Hexadecimal digits of a hash: enough to tell results of one conversation apart.
const HASH_DIGITS: usize = 16;
/// Longest text of a field that is believed when read back.
const MAX_FIELD_CHARS: usize = 256;

/// What a tool call was and what came back. The output is the raw one, before it was shortened or made harmless for a
/// model, so its hash tells results apart and cannot be compared with the stored message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// `r1`, `r2` … by its place in the conversation; empty on a message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Provider's call id.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// `success`, `error` or `partial_success`.
    pub status: String,
    /// Start of the SHA-256 of the arguments with sorted keys, as the model wrote them.
    pub args_sha256: String,
    /// Start of the SHA-256 of the output.
    pub output_sha256: String,
    /// Bytes of the output.
    pub output_bytes: u64,
    /// RFC 3339, UTC.
    pub created_at: String,
}

impl Receipt {
    fn of(call: &ToolCall, message: &Message) -> Self {
        let output = match &message.content {
            Content::Text(text) => text.clone(),
            blocks => canonical(&json!(blocks)).to_string(),
        };
        let meta =
            message.additional_kwargs.get(kwargs::TOOL_META).and_then(|m| m.get("status")).and_then(Value::as_str);
        let status = match message.as_tool().map(|part| part.status).unwrap_or_default() {
            ToolStatus::Success => "success",
            ToolStatus::Error => "error",
        };
        Self {
            id: String::new(),
            tool_call_id: call.id().to_owned(),
            tool_name: call.name.clone(),
            status: meta.unwrap_or(status).to_owned(),
            args_sha256: short_hash(canonical(&Value::Object(call.args.clone())).to_string().as_bytes()),
            output_sha256: short_hash(output.as_bytes()),
            output_bytes: output.len() as u64,
            created_at: jiff::Timestamp::now().to_string(),
        }
    }

    /// Whether it has the shape that the harness writes: what was stored may have been edited.
    pub(super) fn is_sound(&self) -> bool {
        [&self.tool_call_id, &self.tool_name, &self.status, &self.args_sha256, &self.output_sha256, &self.created_at]
            .iter()
            .all(|field| field.len() <= MAX_FIELD_CHARS && !field.contains(char::is_control))
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok().filter(Self::is_sound)
    }

    /// Its number, for an id of `r` and at most six digits without a leading zero.
    pub(super) fn number(&self) -> Option<u32> {
        parse_id(&self.id)
    }
}

/// The number of an id `r1` to `r999999`.
pub(super) fn parse_id(id: &str) -> Option<u32> {
    let digits = id.strip_prefix('r')?;
    let bounded = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (bounded && !digits.starts_with('0')).then(|| digits.parse().ok()).flatten()
}

/// Puts a receipt on a result, in place of any that is there. What is too long for one is cut.
pub(super) fn stamp(call: &ToolCall, message: &mut Message) {
    let mut receipt = Receipt::of(call, message);
    for field in [&mut receipt.tool_call_id, &mut receipt.tool_name, &mut receipt.status] {
        if field.len() > MAX_FIELD_CHARS || field.contains(char::is_control) {
            let clean: String = field.chars().filter(|c| !c.is_control()).take(MAX_FIELD_CHARS / 4).collect();
            tracing::warn!(length = field.len(), "a receipt's field was cut");
            *field = clean;
        }
    }
    message.additional_kwargs.insert(TOOL_RECEIPT.to_owned(), json!(receipt));
}

/// The receipts of a conversation, numbered in order. Those that do not look like ours are left out.
#[must_use]
pub fn receipts(messages: &[Arc<Message>]) -> Vec<Receipt> {
    let found = messages.iter().filter(|m| m.as_tool().is_some());
    let found = found.filter_map(|m| m.additional_kwargs.get(TOOL_RECEIPT)).filter_map(Receipt::read);
    found.enumerate().map(|(index, receipt)| Receipt { id: format!("r{}", index + 1), ..receipt }).collect()
}

/// The same value with all keys sorted.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, canonical(value))).collect();
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

fn short_hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(HASH_DIGITS / 2).fold(String::with_capacity(HASH_DIGITS), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
