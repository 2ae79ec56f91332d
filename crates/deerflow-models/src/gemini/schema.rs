//! JSON Schema as far as the interface takes it: a subset of OpenAPI 3.0 (<https://ai.google.dev/api/caching#Schema>).
//!
//! One keyword that it does not know makes it refuse the whole request, so what is not of the subset is translated where
//! that is possible and left out where not: a schema that says less lets the model say more, and the tool checks anyway.

#[cfg(test)]
use crate::settings::object;
use deerflow_core::JsonMap;
use serde_json::{Value, json};

/// How deep references are followed; a schema that refers to itself ends there.
const DEEPEST: usize = 12;
/// How many references one schema may use up: they can multiply.
const MOST_REFERENCES: usize = 200;

/// Keywords that mean the same on both sides.
const KEPT: &[&str] = &["title", "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"];
/// Formats that are known, by type.
const FORMATS: &[(&str, &[&str])] =
    &[("STRING", &["date-time"]), ("NUMBER", &["float", "double"]), ("INTEGER", &["int32", "int64"])];

/// The `parameters` of a declaration; `None` for a tool that takes none, which must not have an empty object.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let mut translator = Translator { root: schema, references: 0 };
    let mut made = translator.schema(schema, 0);
    let properties = made.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if !properties {
        return None;
    }
    if let Value::Object(map) = &mut made {
        map.insert("type".into(), json!("OBJECT"));
        map.remove("nullable");
    }
    Some(made)
}

struct Translator<'s> {
    root: &'s Value,
    references: usize,
}

impl Translator<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(map) = schema else { return anything() };
        if depth > DEEPEST {
            return json!({"type": "OBJECT"});
        }
        let map = self.resolved(map);
        let mut out = JsonMap::new();
        if let Some(text) = map.get("description").and_then(Value::as_str) {
            out.insert("description".into(), json!(text));
        }
        if map.get("nullable") == Some(&json!(true)) {
            out.insert("nullable".into(), json!(true));
        }
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| map.get(*key).and_then(Value::as_array));
        if let Some(choices) = choices.filter(|choices| !choices.is_empty()) {
            return self.choice(choices, &map, out, depth);
        }
        let types = types(&map);
        if types.contains(&"NULL") {
            out.insert("nullable".into(), json!(true));
        }
        let types: Vec<&str> = types.into_iter().filter(|one| *one != "NULL").collect();
        match types.as_slice() {
            [] => self.untyped(&map, out, depth),
            [one] => {
                self.typed(one, &map, &mut out, depth);
                Value::Object(out)
            }
            several => {
                let made = several.iter().map(|one| {
                    let mut choice = JsonMap::new();
                    self.typed(one, &map, &mut choice, depth);
                    Value::Object(choice)
                });
                let made = made.collect();
                any_of(made, out)
            }
        }
    }

    /// The schema without references and `allOf`, both of which are unknown here.
    fn resolved(&mut self, map: &JsonMap) -> JsonMap {
        let mut map = map.clone();
        while let Some(Value::String(reference)) = map.remove("$ref") {
            self.references += 1;
            let found = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let Some(Value::Object(found)) = found.filter(|_| self.references <= MOST_REFERENCES) else { break };
            for (key, value) in found {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        if let Some(Value::Array(all)) = map.remove("allOf") {
            for part in all {
                let Value::Object(part) = part else { continue };
                if self.references > MOST_REFERENCES {
                    break;
                }
                self.references += 1;
                for (key, value) in self.resolved(&part) {
                    match (map.get_mut(&key), value) {
                        (Some(Value::Object(have)), Value::Object(more)) => {
                            for (key, value) in more {
                                have.entry(key).or_insert(value);
                            }
                        }
                        (Some(Value::Array(have)), Value::Array(more)) if key == "required" => have.extend(more),
                        (Some(_), _) => {}
                        (None, value) => drop(map.insert(key, value)),
                    }
                }
            }
        }
        map
    }

    fn choice(&mut self, choices: &[Value], map: &JsonMap, mut out: JsonMap, depth: usize) -> Value {
        let is_null = |choice: &&Value| {
            choice.get("type").and_then(Value::as_str) == Some("null") || choice.get("const") == Some(&Value::Null)
        };
        if choices.iter().any(|choice| is_null(&choice)) {
            out.insert("nullable".into(), json!(true));
        }
        // Constants of one kind are an enumeration.
        let constants: Vec<&Value> = choices.iter().filter_map(|choice| choice.get("const")).collect();
        if constants.len() == choices.len() && constants.iter().all(|value| value.is_string()) {
            let mut choice = json!({ "type": "string", "enum": constants });
            if let Some(text) = map.get("description") {
                choice["description"] = text.clone();
            }
            return self.schema(&choice, depth + 1);
        }
        let made: Vec<Value> =
            choices.iter().filter(|choice| !is_null(choice)).map(|choice| self.schema(choice, depth + 1)).collect();
        // What stands beside the choice describes an object as a whole; the choice is then between its shapes.
        if map.get("properties").is_some() {
            self.typed("OBJECT", map, &mut out, depth);
            return Value::Object(out);
        }
        any_of(made, out)
    }

    fn untyped(&mut self, map: &JsonMap, mut out: JsonMap, depth: usize) -> Value {
        let guess = if map.contains_key("properties") || map.contains_key("additionalProperties") {
            "OBJECT"
        } else if map.contains_key("items") || map.contains_key("prefixItems") {
            "ARRAY"
        } else if map.contains_key("enum") || map.contains_key("const") || map.contains_key("pattern") {
            "STRING"
        } else {
            let Value::Object(any) = anything() else { return anything() };
            let choices = any.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
            return any_of(choices, out);
        };
        self.typed(guess, map, &mut out, depth);
        Value::Object(out)
    }

    fn typed(&mut self, kind: &str, map: &JsonMap, out: &mut JsonMap, depth: usize) {
        out.insert("type".into(), json!(kind));
        for key in KEPT {
            if let Some(value) = map.get(*key).filter(|value| value.is_string() || value.is_u64()) {
                out.insert((*key).into(), value.clone());
            }
        }
        let format = map.get("format").and_then(Value::as_str);
        let known = FORMATS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, formats)| *formats);
        if let Some(format) = format.filter(|format| known.contains(format)) {
            out.insert("format".into(), json!(format));
        }
        match kind {
            "OBJECT" => self.object(map, out, depth),
            "ARRAY" => {
                let items = self.items(map, depth);
                out.insert("items".into(), items);
            }
            "INTEGER" | "NUMBER" => bounds(kind, map, out),
            "STRING" => {
                if let Some(pattern) = map.get("pattern").filter(|pattern| pattern.is_string()) {
                    out.insert("pattern".into(), pattern.clone());
                }
            }
            _ => {}
        }
        enumerate(kind, map, out);
    }

    fn object(&mut self, map: &JsonMap, out: &mut JsonMap, depth: usize) {
        let Some(Value::Object(properties)) = map.get("properties").filter(|all| **all != json!({})) else { return };
        let mut made = JsonMap::new();
        for (name, schema) in properties {
            made.insert(name.clone(), self.schema(schema, depth + 1));
        }
        let mut required: Vec<&str> = Vec::new();
        for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            // A name without a property is refused.
            if made.contains_key(name) && !required.contains(&name) {
                required.push(name);
            }
        }
        let required = (!required.is_empty()).then(|| json!(required));
        out.insert("properties".into(), Value::Object(made));
        if let Some(required) = required {
            out.insert("required".into(), required);
        }
    }

    /// What an array holds. It has to be said; a tuple holds any of its places.
    fn items(&mut self, map: &JsonMap, depth: usize) -> Value {
        let places = map.get("prefixItems").or_else(|| map.get("items").filter(|items| items.is_array()));
        if let Some(Value::Array(places)) = places {
            let mut made: Vec<Value> = Vec::new();
            for place in places {
                let place = self.schema(place, depth + 1);
                if !made.contains(&place) {
                    made.push(place);
                }
            }
            return any_of(made, JsonMap::new());
        }
        match map.get("items") {
            Some(items @ Value::Object(_)) => self.schema(items, depth + 1),
            _ => json!({"type": "STRING"}),
        }
    }
}

/// The types that are named, in the wire's spelling.
fn types(map: &JsonMap) -> Vec<&'static str> {
    let known = |name: &str| {
        ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"]
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(name))
    };
    match map.get("type") {
        Some(Value::String(name)) => known(name).into_iter().collect(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).filter_map(known).collect(),
        _ => Vec::new(),
    }
}

/// A choice. Nothing may stand beside it, so what is said of the whole is said of each.
fn any_of(mut choices: Vec<Value>, whole: JsonMap) -> Value {
    if choices.is_empty() {
        choices.push(json!({"type": "STRING"}));
    }
    choices.iter_mut().for_each(|choice| say_of_each(choice, &whole));
    if choices.len() == 1 {
        return choices.remove(0);
    }
    json!({ "anyOf": choices })
}

fn say_of_each(schema: &mut Value, whole: &JsonMap) {
    let Value::Object(map) = schema else { return };
    match map.get_mut("anyOf") {
        Some(Value::Array(choices)) => choices.iter_mut().for_each(|choice| say_of_each(choice, whole)),
        _ => {
            for (key, value) in whole {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// A value of any type: there is no word for it, and a type has to be named.
fn anything() -> Value {
    json!({"anyOf": [
        {"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"},
        {"type": "ARRAY", "items": {"type": "STRING"}}
    ]})
}

/// Bounds; an open one is moved to the next integer, and made a closed one for other numbers.
fn bounds(kind: &str, map: &JsonMap, out: &mut JsonMap) {
    let number = |key: &str| map.get(key).filter(|value| value.is_number());
    for (closed, open, step) in [("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)] {
        let bound = match (number(closed), number(open)) {
            (Some(bound), _) => bound.clone(),
            (None, Some(bound)) => match bound.as_i64().filter(|_| kind == "INTEGER") {
                Some(whole) => json!(whole.saturating_add(step)),
                None => bound.clone(),
            },
            (None, None) => continue,
        };
        out.insert(closed.into(), bound);
    }
}

/// Only texts can be enumerated; other values are told in words.
fn enumerate(kind: &str, map: &JsonMap, out: &mut JsonMap) {
    let values: Vec<&Value> = match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().collect(),
        (_, Some(value)) => vec![value],
        _ => return,
    };
    if values.iter().any(|value| value.is_null()) {
        out.insert("nullable".into(), json!(true));
    }
    let values: Vec<&Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    if kind == "STRING" && values.iter().all(|value| value.is_string()) {
        let texts: Vec<&str> =
            values.iter().filter_map(|value| value.as_str()).filter(|text| !text.is_empty()).collect();
        if !texts.is_empty() {
            out.insert("enum".into(), json!(texts));
        }
        return;
    }
    if values.is_empty() {
        return;
    }
    let list = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let words = match out.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} (one of: {list})"),
        None => format!("one of: {list}"),
    };
    out.insert("description".into(), json!(words));
}

/// Whether `schema` is of the subset: for tests, written from the provider's reference.
#[cfg(test)]
fn check(schema: &Value, path: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{path}: {what}"));
    let Value::Object(map) = schema else { return fail("no object") };
    if let Some(choices) = map.get("anyOf") {
        if map.len() != 1 {
            return fail("something stands beside anyOf");
        }
        let Some(choices) = choices.as_array().filter(|choices| choices.len() > 1) else { return fail("no choice") };
        return choices.iter().try_for_each(|choice| check(choice, &format!("{path}|")));
    }
    let allowed = [
        "type",
        "title",
        "description",
        "nullable",
        "enum",
        "format",
        "items",
        "properties",
        "required",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
    ];
    if let Some(key) = map.keys().find(|key| !allowed.contains(&key.as_str())) {
        return fail(&format!("unknown key {key}"));
    }
    match map.get("type").and_then(Value::as_str) {
        Some("ARRAY") => match map.get("items") {
            Some(items) => check(items, &format!("{path}[]"))?,
            None => return fail("an array of nothing"),
        },
        Some("STRING" | "NUMBER" | "INTEGER" | "BOOLEAN" | "OBJECT") => {}
        other => return fail(&format!("type {other:?}")),
    }
    if map.contains_key("enum") && map["type"] != "STRING" {
        return fail("an enumeration of something else than texts");
    }
    let properties = object(map.get("properties").cloned().unwrap_or_default());
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !properties.contains_key(name.as_str().unwrap_or_default()) {
            return fail("a required name without a property");
        }
    }
    properties.iter().try_for_each(|(name, schema)| check(schema, &format!("{path}.{name}")))
}

#[cfg(test)]
mod tests;
