//! Thinking in the fields that servers use for it.

use serde_json::Value;

/// The thinking of a message or delta, and the field it came in. Some servers say the same in two fields; of `fields` the
/// first that has any counts.
pub(super) fn read(message: &Value, fields: &[&'static str]) -> Option<(&'static str, String)> {
    fields.iter().find_map(|field| {
        let text = match message.get(*field)? {
            Value::String(text) => text.clone(),
            Value::Object(object) => {
                object.get("content").or_else(|| object.get("text")).and_then(Value::as_str)?.to_owned()
            }
            Value::Array(details) => details
                .iter()
                .filter_map(|detail| detail.get("text").or_else(|| detail.get("summary")).and_then(Value::as_str))
                .collect(),
            _ => return None,
        };
        (!text.is_empty()).then_some((*field, text))
    })
}

/// Whether thinking is there and empty.
pub(super) fn is_empty(message: &Value, fields: &[&'static str]) -> bool {
    fields.iter().any(|field| message.get(*field).and_then(Value::as_str) == Some(""))
}

/// Collects `reasoning_details`, whose pieces belong together by index and type, so that they can go back unchanged.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Value>);

impl Details {
    pub(super) fn push(&mut self, message: &Value) {
        let Some(pieces) = message.get("reasoning_details").and_then(Value::as_array) else { return };
        for piece in pieces {
            let same = |known: &&mut Value| {
                known.get("type") == piece.get("type")
                    && known.get("index") == piece.get("index")
                    && piece.get("index").is_some()
            };
            match self.0.iter_mut().rev().find(same) {
                Some(known) => append(known, piece),
                None => self.0.push(piece.clone()),
            }
        }
    }

    pub(super) fn into_value(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Array(self.0))
    }
}

fn append(known: &mut Value, piece: &Value) {
    let (Value::Object(known), Value::Object(piece)) = (known, piece) else { return };
    for (key, value) in piece {
        match (known.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if matches!(key.as_str(), "text" | "summary" | "data") => {
                text.push_str(more);
            }
            (_, Value::Null) => {}
            _ => {
                known.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_tried_in_turn_and_never_added_up() {
        let read = |message: &Value| read(message, &["reasoning_content", "reasoning", "reasoning_details"]);
        let both = json!({"reasoning": "a", "reasoning_details": [{"text": "a"}]});
        assert_eq!(read(&both), Some(("reasoning", "a".into())));
        assert_eq!(read(&json!({"reasoning_content": "", "reasoning": "b"})), Some(("reasoning", "b".into())));
        assert_eq!(
            read(&json!({"reasoning_details": [{"text": " a "}, {"text": "b"}]})),
            Some(("reasoning_details", " a b".into()))
        );
        assert_eq!(read(&json!({"content": "x"})), None);
    }

    #[test]
    fn pieces_of_details_join_and_keep_their_signature() {
        let mut details = Details::default();
        for piece in [
            json!({"type": "reasoning.text", "index": 0, "text": "a", "signature": null}),
            json!({"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}),
            json!({"type": "reasoning.encrypted", "index": 1, "data": "d"}),
        ] {
            details.push(&json!({"reasoning_details": [piece]}));
        }
        assert_eq!(
            details.into_value().unwrap(),
            json!([
                {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
                {"type": "reasoning.encrypted", "index": 1, "data": "d"}
            ])
        );
    }
}
