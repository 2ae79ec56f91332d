//! Parts of an answer that a client asked for.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Fields to answer with: their names, or `values.<channel>` for one channel. All when empty.
///
/// In a query the key may be repeated, and names may be parted by commas.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Select(Vec<String>);

impl<'de> Deserialize<'de> for Select {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default();
        let names = names.iter().flat_map(|name| name.split(',')).map(str::trim).filter(|name| !name.is_empty());
        Ok(Self(names.map(str::to_owned).collect()))
    }
}

impl Select {
    /// What is left of an object.
    pub fn of(&self, whole: Value) -> Value {
        let Value::Object(mut whole) = whole else { return whole };
        if self.0.is_empty() {
            return Value::Object(whole);
        }
        let mut left = Map::new();
        for name in &self.0 {
            match name.split_once('.') {
                None => {
                    if let Some(value) = whole.get(name) {
                        left.insert(name.clone(), value.clone());
                    }
                }
                // The whole field was asked for as well.
                Some((field, _)) if self.0.iter().any(|name| name == field) => {}
                Some((field, key)) => {
                    let found = whole.get_mut(field).and_then(Value::as_object_mut).and_then(|inner| inner.remove(key));
                    let part = left.entry(field).or_insert_with(|| Value::Object(Map::new()));
                    if let (Some(found), Some(part)) = (found, part.as_object_mut()) {
                        part.insert(key.to_owned(), found);
                    }
                }
            }
        }
        Value::Object(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn only_what_was_asked_for_is_left() {
        let whole = json!({"values": {"title": "t", "messages": [1]}, "next": [], "tasks": []});
        let of = |names: Value| serde_json::from_value::<Select>(names).unwrap().of(whole.clone());
        assert_eq!(of(json!([])), whole);
        assert_eq!(of(json!(null)), whole);
        assert_eq!(of(json!(["values.title,next"])), json!({"values": {"title": "t"}, "next": []}));
        assert_eq!(of(json!(["values.none", "none"])), json!({"values": {}}));
        assert_eq!(of(json!(["values.title", "values"])), json!({"values": {"title": "t", "messages": [1]}}));
    }
}
