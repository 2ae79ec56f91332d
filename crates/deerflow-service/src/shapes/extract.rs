//! Values picked out of a thread by path.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A path like `values.messages[-1].content`: keys by dots, list entries in brackets, negative ones from the end.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractPath(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Key(String),
    Index(i64),
}

impl ExtractPath {
    /// Reads a path; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for piece in text.split('.') {
            let (key, mut indices) = piece.split_at(piece.find('[').unwrap_or(piece.len()));
            if key.is_empty() {
                return None;
            }
            parts.push(Part::Key(key.to_owned()));
            while !indices.is_empty() {
                let (index, rest) = indices.strip_prefix('[')?.split_once(']')?;
                parts.push(Part::Index(index.parse().ok()?));
                indices = rest;
            }
        }
        Some(Self(parts))
    }

    /// Whether the path begins with this key.
    pub fn is_in(&self, field: &str) -> bool {
        matches!(self.0.first(), Some(Part::Key(key)) if key == field)
    }

    /// What is there; `null` when nothing is.
    pub fn find(&self, whole: &Value) -> Value {
        let step = |value: &'_ Value, part: &Part| -> Option<Value> {
            match part {
                Part::Key(key) => value.get(key).cloned(),
                Part::Index(index) => {
                    let list = value.as_array()?;
                    let from_end = usize::try_from(index.unsigned_abs()).ok()?;
                    let at = if *index < 0 { list.len().checked_sub(from_end)? } else { from_end };
                    list.get(at).cloned()
                }
            }
        };
        let mut found = whole.clone();
        for part in &self.0 {
            let Some(next) = step(&found, part) else { return Value::Null };
            found = next;
        }
        found
    }
}

impl<'de> Deserialize<'de> for ExtractPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no path; write one like `values.messages[-1].content`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn paths_lead_to_what_is_there() {
        let whole = json!({"values": {"messages": [{"content": "a"}, {"content": [1, [2, 3]]}]}});
        let find = |path: &str| ExtractPath::parse(path).unwrap().find(&whole);
        assert_eq!(find("values.messages[0].content"), "a");
        assert_eq!(find("values.messages[-1].content[1][-2]"), 2);
        for nothing in ["values.messages[2]", "values.messages[-3]", "values.none.x", "values[0]"] {
            assert_eq!(find(nothing), Value::Null, "{nothing}");
        }
        for bad in ["", ".", "a..b", "a[", "a[x]", "a[1", "[0]", "a[0]b"] {
            assert_eq!(ExtractPath::parse(bad), None, "{bad}");
        }
    }
}
