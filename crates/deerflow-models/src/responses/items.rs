//! The items of an assistant turn, in the order in which the model made them.
//!
//! A reasoning item is opaque, belongs to the item after it, and is of use only to the service and model that made it. The
//! order is kept with the message: among the content blocks (`output_version: responses/v1`), else in `additional_kwargs`.

use deerflow_core::{Content, ContentBlock, Message, ToolCall};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Key of `additional_kwargs` with the order of items.
pub(super) const OUTPUT: &str = "responses_output";
/// Key of `response_metadata` with the service and model that can read the reasoning.
pub(super) const ORIGIN: &str = "responses_origin";

/// One item to send back.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'m> {
    /// As it came, without what names it at the provider.
    Reasoning(Value),
    Text {
        text: Cow<'m, str>,
        /// `commentary` or `final_answer`, where the model told them apart.
        phase: Option<&'m str>,
    },
    Call(&'m ToolCall),
}

/// The parts of `message`, reasoning only if it came from `origin`. Every call of the message is among them once, and
/// reasoning always has something after it.
pub(super) fn parts<'m>(message: &'m Message, origin: Option<&str>) -> Vec<Part<'m>> {
    let of_origin = message.response_metadata.get(ORIGIN).and_then(Value::as_str);
    let reasoning = origin.is_some() && of_origin == origin;
    let text = |text: Cow<'m, str>, phase| (!text.trim().is_empty()).then_some(Slot::Text { text, phase });
    let stored = message.additional_kwargs.get(OUTPUT).and_then(Value::as_array);
    let slots: Vec<Slot<'m>> = match (&message.content, stored) {
        (Content::Text(own), Some(stored)) => {
            let mut slots: Vec<Slot<'m>> = stored.iter().filter_map(Slot::read).collect();
            let whole = text(Cow::Borrowed(own), None);
            place_text(&mut slots, whole);
            slots
        }
        (Content::Text(own), None) => text(Cow::Borrowed(own), None).into_iter().collect(),
        (Content::Blocks(blocks), _) => blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Raw(value) if block.text().is_none() => Slot::read(value),
                block => text(Cow::Borrowed(block.text()?), None),
            })
            .collect(),
    };
    settle(message.tool_calls(), slots, reasoning)
}

/// Where something stood.
enum Slot<'m> {
    Reasoning(&'m Value),
    Text { text: Cow<'m, str>, phase: Option<&'m str> },
    Call(&'m str),
}

impl<'m> Slot<'m> {
    fn read(value: &'m Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match text("type")? {
            "reasoning" => Some(Self::Reasoning(value)),
            "message" => Some(Self::Text { text: Cow::Borrowed(""), phase: text("phase") }),
            "function_call" => Some(Self::Call(text("call_id")?)),
            _ => None,
        }
    }
}

/// Puts the text of a message where its message item stood; in front of everything where it had none, since reasoning
/// belongs to what follows it. Of several message items the last one gets the text, which is all there is of them.
fn place_text<'m>(slots: &mut Vec<Slot<'m>>, whole: Option<Slot<'m>>) {
    let at = slots.iter().rposition(|slot| matches!(slot, Slot::Text { .. }));
    match (whole, at) {
        (Some(Slot::Text { text: whole, .. }), Some(at)) => {
            if let Some(Slot::Text { text, .. }) = slots.get_mut(at) {
                *text = whole;
            }
        }
        (Some(whole), None) => slots.insert(0, whole),
        _ => {}
    }
    slots.retain(|slot| !matches!(slot, Slot::Text { text, .. } if text.is_empty()));
}

fn settle<'m>(calls: &'m [ToolCall], slots: Vec<Slot<'m>>, reasoning: bool) -> Vec<Part<'m>> {
    let marked = slots.iter().filter(|slot| matches!(slot, Slot::Call(_))).count();
    let mut open: Vec<Option<&ToolCall>> = calls.iter().map(Some).collect();
    let mut parts: Vec<Part<'m>> = Vec::with_capacity(slots.len() + calls.len());
    let mut waiting: Vec<Value> = Vec::new();
    let mut position = 0;
    for slot in slots {
        let part = match slot {
            Slot::Reasoning(item) => {
                waiting.extend(replayable(item).filter(|_| reasoning));
                continue;
            }
            Slot::Text { text, phase } => Some(Part::Text { text, phase }),
            Slot::Call(id) => {
                // By id; by position where ids had to be changed.
                let by_id = calls.iter().position(|call| call.id() == id);
                let at = by_id.or((marked == calls.len()).then_some(position));
                position += 1;
                at.and_then(|at| open.get_mut(at)?.take()).map(Part::Call)
            }
        };
        // Reasoning goes with the item it led to, and with nothing else.
        let led_here = std::mem::take(&mut waiting);
        if let Some(part) = part {
            parts.extend(led_here.into_iter().map(Part::Reasoning));
            parts.push(part);
        }
    }
    parts.extend(open.into_iter().flatten().map(Part::Call));
    parts
}

/// The item as it goes back: without id and status, which only a service that stored it understands.
fn replayable(item: &Value) -> Option<Value> {
    let encrypted = item.get("encrypted_content").and_then(Value::as_str).filter(|text| !text.is_empty());
    let content = item.get("content").and_then(Value::as_array).filter(|parts| !parts.is_empty());
    if encrypted.is_none() && content.is_none() {
        return None;
    }
    let mut back = json!({"type": "reasoning", "summary": item.get("summary").cloned().unwrap_or_else(|| json!([]))});
    if let Some(content) = content {
        back["content"] = json!(content);
    }
    if let Some(encrypted) = encrypted {
        back["encrypted_content"] = json!(encrypted);
    }
    Some(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::JsonMap;
    use pretty_assertions::assert_eq;

    const HERE: Option<&str> = Some("api.example/m");

    fn reasoning(secret: &str) -> Value {
        json!({"type": "reasoning", "id": "rs_1", "status": null, "summary": [], "encrypted_content": secret})
    }
    fn marker(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id})
    }
    fn turn(content: impl Into<Content>, ids: &[&str], order: Value) -> Message {
        let calls = ids.iter().map(|id| ToolCall::new(*id, "f", JsonMap::new())).collect();
        let mut message = Message::ai_calls(content, calls).with_kwarg(OUTPUT, order);
        message.response_metadata.insert(ORIGIN.into(), json!("api.example/m"));
        message
    }
    fn shape(message: &Message, origin: Option<&str>) -> Vec<String> {
        parts(message, origin)
            .iter()
            .map(|part| match part {
                Part::Reasoning(item) => format!("r:{}", item["encrypted_content"].as_str().unwrap_or_default()),
                Part::Text { text, phase } => format!("t:{text}:{}", phase.unwrap_or_default()),
                Part::Call(call) => format!("c:{}", call.id()),
            })
            .collect()
    }

    #[test]
    fn reasoning_goes_right_before_the_call_it_led_to() {
        let order = json!([
            reasoning("A"), {"type": "message", "phase": "commentary"}, reasoning("B"), marker("a"), reasoning("C"), marker("b")
        ]);
        let message = turn("look", &["a", "b"], order);
        assert_eq!(shape(&message, HERE), ["r:A", "t:look:commentary", "r:B", "c:a", "r:C", "c:b"]);
        assert_eq!(
            parts(&message, HERE)[0],
            Part::Reasoning(json!({"type": "reasoning", "summary": [], "encrypted_content": "A"}))
        );
    }

    #[test]
    fn reasoning_of_another_model_or_service_is_left_out() {
        let message = turn("", &["a"], json!([reasoning("A"), marker("a")]));
        assert_eq!(shape(&message, Some("api.example/other")), ["c:a"]);
        assert_eq!(shape(&message, None), ["c:a"]);
        let mut unknown = message.clone();
        unknown.response_metadata.clear();
        assert_eq!(shape(&unknown, HERE), ["c:a"]);
    }

    #[test]
    fn what_became_of_the_turn_later_never_leaves_reasoning_without_a_follower() {
        // The calls were taken out, and a note was put in.
        let closed = turn("[stopped]", &[], json!([reasoning("A"), marker("a")]));
        assert_eq!(shape(&closed, HERE), ["t:[stopped]:"]);
        // An id had to be changed: the place counts.
        let renamed = turn("", &["x", "y"], json!([reasoning("A"), marker("a"), reasoning("B"), marker("b")]));
        assert_eq!(shape(&renamed, HERE), ["r:A", "c:x", "r:B", "c:y"]);
        // One of two was taken out.
        let one = turn("", &["b"], json!([reasoning("A"), marker("a"), reasoning("B"), marker("b")]));
        assert_eq!(shape(&one, HERE), ["r:B", "c:b"]);
        // One was added, and reasoning without a secret is worth nothing.
        let added = turn("", &["a", "z"], json!([{"type": "reasoning", "summary": []}, marker("a")]));
        assert_eq!(shape(&added, HERE), ["c:a", "c:z"]);
        assert_eq!(shape(&turn("", &[], json!([reasoning("A")])), HERE), Vec::<String>::new());
    }

    #[test]
    fn blocks_carry_the_order_themselves() {
        let blocks = [reasoning("A"), json!({"type": "text", "text": "hi"}), reasoning("B"), marker("a")];
        let content = Content::Blocks(blocks.into_iter().map(ContentBlock::from).collect());
        let message = turn(content, &["a"], json!(null));
        assert_eq!(shape(&message, HERE), ["r:A", "t:hi:", "r:B", "c:a"]);
    }
}
