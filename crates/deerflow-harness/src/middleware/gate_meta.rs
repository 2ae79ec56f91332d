//! The stamp of a result that a gate gives in place of a tool: what a tool fails with is classified by its text, and a gate
//! says itself what it means.

use super::tool_error_handling::ToolMeta;
use deerflow_core::Message;
use deerflow_core::message::kwargs;
use serde_json::json;

/// Stamps an error of this kind, which the model can mend by going another way.
pub(super) fn stamp_refusal(message: &mut Message, kind: Option<&str>) {
    stamp(message, kind, "try_alternative", "tool_return");
}

/// Stamps an error with what the model should do about it, and who says so.
pub(super) fn stamp(message: &mut Message, kind: Option<&str>, action: &str, source: &str) {
    let meta = ToolMeta {
        status: "error".to_owned(),
        error_type: kind.map(str::to_owned),
        recoverable_by_model: true,
        recommended_next_action: action.to_owned(),
        source: source.to_owned(),
    };
    message.additional_kwargs.insert(kwargs::TOOL_META.to_owned(), json!(meta));
}
