//! Which checkpoint a client means.

use super::state::before_first;
use deerflow_core::CheckpointId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A checkpoint as clients name it: its id, the object that states carry, or a config with that in `configurable`.
///
/// An object without an id means the head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckpointChoice {
    /// Id; the head when absent.
    pub id: Option<CheckpointId>,
    /// Namespace of a sub-agent; empty for the thread itself.
    pub namespace: String,
}

impl CheckpointChoice {
    /// This checkpoint of the thread itself.
    pub fn of(id: CheckpointId) -> Self {
        Self { id: Some(id), namespace: String::new() }
    }
    /// Whether the state before the first step is meant.
    pub fn is_before_first(&self) -> bool {
        self.id.as_ref().is_some_and(|id| id.as_str() == before_first())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    checkpoint_id: Option<CheckpointId>,
    checkpoint_ns: Option<String>,
    configurable: Option<Box<Object>>,
}

impl<'de> Deserialize<'de> for CheckpointChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::default()),
            Value::String(id) => Ok(Self::of(CheckpointId::parse(id).map_err(D::Error::custom)?)),
            value if value.is_object() => {
                let object: Object = serde_json::from_value(value).map_err(D::Error::custom)?;
                let object = match object.configurable {
                    Some(inner) => *inner,
                    None => object,
                };
                Ok(Self { id: object.checkpoint_id, namespace: object.checkpoint_ns.unwrap_or_default() })
            }
            _ => Err(D::Error::custom("Input should be a checkpoint: its id, or an object with `checkpoint_id`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn ids_objects_and_configs_name_the_same() {
        let read = |value: Value| serde_json::from_value::<CheckpointChoice>(value).map_err(|error| error.to_string());
        let c1 = CheckpointChoice::of(CheckpointId::parse("c1").unwrap());
        assert_eq!(read(json!("c1")), Ok(c1.clone()));
        assert_eq!(read(json!({"thread_id": "t", "checkpoint_id": "c1", "checkpoint_ns": ""})), Ok(c1.clone()));
        assert_eq!(read(json!({"configurable": {"checkpoint_id": "c1"}})), Ok(c1));
        assert_eq!(read(json!({"checkpoint_id": null})), Ok(CheckpointChoice::default()));
        assert!(read(json!("../x")).is_err());
        assert!(read(json!(7)).is_err());
    }
}
