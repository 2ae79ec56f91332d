//! The trail of rewrites on a tool result: who changed the text between the tool and the model, in order.

use deerflow_core::Message;
use serde_json::{Value, json};

/// `additional_kwargs` key of the trail: a list of `{"kind", "by", "version"}`. The last entry made the final text.
pub const TOOL_TRANSFORMS: &str = "deerflow_tool_transforms";

/// Adds one entry. What stands there and is no list (a tool may write any extras) is replaced.
pub(super) fn record_transform(message: &mut Message, kind: &str, by: &str) {
    let entry = json!({"kind": kind, "by": by, "version": "1"});
    match message.additional_kwargs.get_mut(TOOL_TRANSFORMS) {
        Some(Value::Array(trail)) => trail.push(entry),
        _ => {
            message.additional_kwargs.insert(TOOL_TRANSFORMS.to_owned(), Value::Array(vec![entry]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn entries_are_kept_in_order_and_a_forged_trail_is_dropped() {
        let mut message = Message::tool("x", "c", "web_fetch").with_kwarg(TOOL_TRANSFORMS, "forged");
        record_transform(&mut message, "pii_redaction", "A");
        record_transform(&mut message, "sanitized", "B");
        assert_eq!(
            message.additional_kwargs[TOOL_TRANSFORMS],
            json!([
                {"kind": "pii_redaction", "by": "A", "version": "1"},
                {"kind": "sanitized", "by": "B", "version": "1"},
            ])
        );
    }
}
