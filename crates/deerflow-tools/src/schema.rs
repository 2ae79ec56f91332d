//! Argument structs to the JSON Schema that every provider takes: flat, without references, nulls and annotations.

use deerflow_core::ToolSpec;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

/// What the model sees of a tool whose arguments are `T`.
#[must_use]
pub fn spec<T: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut parameters = settings.into_generator().into_root_schema_for::<T>().to_value();
    flatten(&mut parameters);
    if let Some(root) = parameters.as_object_mut() {
        root.remove("description");
        require_description(root);
    }
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

/// The model is told that `description` is needed, although a call without it is carried out.
fn require_description(root: &mut deerflow_core::JsonMap) {
    if root.get("properties").and_then(|properties| properties.get("description")).is_none() {
        return;
    }
    let required = root.entry("required").or_insert_with(|| json!([]));
    if let Some(names) = required.as_array_mut() {
        names.retain(|name| name != "description");
        names.insert(0, json!("description"));
    }
}

fn flatten(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for annotation in ["$schema", "title", "format", "default", "minimum", "maximum"] {
        map.remove(annotation);
    }
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    // `["integer", "null"]`: leaving it out says the same.
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(allowed)) = map.get_mut("enum") {
        allowed.retain(|one| !one.is_null());
    }
    for choice in ["anyOf", "oneOf"] {
        let Some(Value::Array(mut choices)) = map.remove(choice) else { continue };
        choices.retain(|one| one.get("type").and_then(Value::as_str) != Some("null"));
        choices.iter_mut().for_each(flatten);
        merge_choices(map, choices);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(flatten);
        map.insert("additionalProperties".to_owned(), json!(false));
    }
    if let Some(items) = map.get_mut("items") {
        flatten(items);
    }
}

/// One choice stands for itself, constants become an enum, the rest stays a choice.
fn merge_choices(map: &mut deerflow_core::JsonMap, mut choices: Vec<Value>) {
    let constants = |one: &Value| match (one.get("const"), one.get("enum")) {
        (Some(constant), _) => Some(vec![constant.clone()]),
        (None, Some(Value::Array(list))) => Some(list.clone()),
        _ => None,
    };
    let constants: Option<Vec<Vec<Value>>> = choices.iter().map(constants).collect();
    if let Some(constants) = constants.map(|lists| lists.concat()).filter(|constants| !constants.is_empty()) {
        map.insert("type".to_owned(), json!("string"));
        map.insert("enum".to_owned(), Value::Array(constants));
    } else if choices.len() == 1 {
        if let Some(Value::Object(only)) = choices.pop() {
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    } else {
        map.insert("anyOf".to_owned(), Value::Array(choices));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Args {
        /// Why.
        #[serde(default)]
        description: String,
        /// Where
        /// it is.
        path: String,
        #[serde(default)]
        line: Option<i64>,
        #[serde(default)]
        mode: Option<Mode>,
        list: Vec<Item>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        /// One.
        First,
        /// Two.
        SecondOne,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Item {
        name: String,
    }

    #[test]
    fn schemas_are_flat_and_start_with_the_description() {
        assert_eq!(
            spec::<Args>("t", "d").parameters,
            json!({
                "type": "object",
                "properties": {
                    "description": {"description": "Why.", "type": "string"},
                    "path": {"description": "Where it is.", "type": "string"},
                    "line": {"type": "integer"},
                    "mode": {"type": "string", "enum": ["first", "second_one"]},
                    "list": {"type": "array", "items": {
                        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
                        "additionalProperties": false}}
                },
                "required": ["description", "path", "list"],
                "additionalProperties": false
            })
        );
    }
}
