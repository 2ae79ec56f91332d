//! Message content: a string, or a list of typed blocks.

use crate::JsonMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;

/// What a message says. On the wire a JSON string or a list of blocks; which of the two it was is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<ContentBlock>),
}

/// One block of a [`Content::Blocks`] list.
///
/// Only the two blocks that this crate understands are typed. Everything else (`thinking`, `reasoning`, `tool_use`, a text
/// block with provider keys, a bare string) is kept as it came in [`ContentBlock::Raw`].
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// `{"type":"text","text":…}`
    Text(String),
    /// `{"type":"image_url","image_url":{"url":…}}`; the URL may be a `data:` URL.
    ImageUrl(String),
    /// Any other JSON value, passed through untouched.
    Raw(Value),
}

impl ContentBlock {
    /// The visible text of this block, if it has any.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::ImageUrl(_) => None,
            Self::Raw(Value::String(text)) => Some(text),
            Self::Raw(value) if value.get("type").and_then(Value::as_str) == Some("text") => {
                value.get("text").and_then(Value::as_str)
            }
            Self::Raw(_) => None,
        }
    }
    /// The `type` key of this block; `text` for a bare string.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) | Self::Raw(Value::String(_)) => "text",
            Self::ImageUrl(_) => "image_url",
            Self::Raw(value) => value.get("type").and_then(Value::as_str).unwrap_or("unknown"),
        }
    }
    /// The block as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::ImageUrl(url) => json!({"type": "image_url", "image_url": {"url": url}}),
            Self::Raw(value) => value.clone(),
        }
    }
}

impl From<Value> for ContentBlock {
    fn from(value: Value) -> Self {
        let Value::Object(map) = &value else { return Self::Raw(value) };
        match (map.get("type").and_then(Value::as_str), map.len()) {
            (Some("text"), 2) => {
                if let Some(Value::String(text)) = map.get("text") {
                    return Self::Text(text.clone());
                }
            }
            (Some("image_url"), 2) => {
                if let Some(Value::Object(image)) = map.get("image_url")
                    && let (Some(Value::String(url)), 1) = (image.get("url"), image.len())
                {
                    return Self::ImageUrl(url.clone());
                }
            }
            _ => {}
        }
        Self::Raw(value)
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Raw(value) => value.serialize(serializer),
            other => other.to_value().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// All visible text, blocks joined by a line break.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Blocks(blocks) => {
                let mut texts = blocks.iter().filter_map(ContentBlock::text);
                match (texts.next(), texts.next()) {
                    (None, _) => Cow::Borrowed(""),
                    (Some(only), None) => Cow::Borrowed(only),
                    (Some(first), Some(second)) => {
                        let mut all = format!("{first}\n{second}");
                        for text in texts {
                            all.push('\n');
                            all.push_str(text);
                        }
                        Cow::Owned(all)
                    }
                }
            }
        }
    }

    /// Whether there is neither visible text nor any other block.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Blocks(blocks) => blocks.iter().all(|b| b.text().is_some_and(|t| t.trim().is_empty())),
        }
    }

    /// Whether any block is something other than text.
    #[must_use]
    pub fn has_non_text(&self) -> bool {
        matches!(self, Self::Blocks(blocks) if blocks.iter().any(|b| b.text().is_none()))
    }

    /// The content as a list of blocks, whichever form it has.
    #[must_use]
    pub fn to_blocks(&self) -> Vec<ContentBlock> {
        match self {
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![ContentBlock::Text(text.clone())],
            Self::Blocks(blocks) => blocks.clone(),
        }
    }

    /// The same content with `text` put in front: its own block when there are blocks, else two line breaks between.
    #[must_use]
    pub fn prepend_text(&self, text: &str) -> Self {
        match self {
            Self::Text(own) => Self::Text(format!("{text}\n\n{own}")),
            Self::Blocks(blocks) => {
                let mut all = vec![ContentBlock::Text(text.to_owned())];
                all.extend(blocks.iter().cloned());
                Self::Blocks(all)
            }
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<JsonMap> for ContentBlock {
    fn from(map: JsonMap) -> Self {
        Self::from(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn every_block_survives_a_round_trip() {
        let wire = json!([
            {"type": "text", "text": "a"},
            "bare",
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/i.png", "detail": "low"}},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            7
        ]);
        let content: Content = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(content.text(), "a\nbare\nb");
        assert_eq!(serde_json::to_value(&content).unwrap(), wire);
    }

    #[test]
    fn blank_means_no_text_and_nothing_else() {
        assert!(Content::from(" \n").is_blank());
        assert!(Content::Blocks(vec![ContentBlock::Text(String::new())]).is_blank());
        assert!(!Content::Blocks(vec![ContentBlock::ImageUrl("u".into())]).is_blank());
    }
}
