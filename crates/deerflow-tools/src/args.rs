//! Arguments as a model wrote them, made into what a tool declared: a slip that has one meaning is put right, everything else
//! is an error that says how to call the tool.

use deerflow_core::{JsonMap, ToolError, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Says why a call is made; every model sends it now and then to tools that have no such argument.
const HARMLESS: &str = "description";

/// The arguments as `T`.
///
/// # Errors
/// [`ToolError::Respond`] naming every field that is wrong, what was expected, and the tool's arguments.
pub fn parse<T: DeserializeOwned>(spec: &ToolSpec, args: JsonMap) -> Result<T, ToolError> {
    let (clean, problems) = conform(&spec.parameters, args);
    if !problems.is_empty() {
        return Err(refuse(spec, &problems));
    }
    serde_json::from_value(Value::Object(clean)).map_err(|error| refuse(spec, &[error.to_string()]))
}

fn refuse(spec: &ToolSpec, problems: &[String]) -> ToolError {
    ToolError::Respond(format!(
        "Invalid arguments for {}: {}. Arguments of {}: {}. Nothing was done; call it again with corrected arguments.",
        spec.name,
        problems.join("; "),
        spec.name,
        describe_arguments(&spec.parameters)
    ))
}

/// The arguments with coercions done, and what is wrong with them.
fn conform(schema: &Value, args: JsonMap) -> (JsonMap, Vec<String>) {
    let empty = JsonMap::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut clean = JsonMap::new();
    let mut problems = Vec::new();
    for (key, value) in args {
        match properties.get(&key) {
            Some(property) => {
                // `null` is how some models leave an argument out.
                if value.is_null() {
                    continue;
                }
                match coerce(property, value, &key) {
                    Ok(value) => {
                        clean.insert(key, value);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            None if key == HARMLESS => {}
            None => problems.push(match nearest(&key, properties) {
                Some(near) => format!("`{key}` is not an argument (did you mean `{near}`?)"),
                None => format!("`{key}` is not an argument"),
            }),
        }
    }
    for key in required(schema).filter(|key| *key != HARMLESS && !clean.contains_key(*key)) {
        // One that was given and is wrong has its message already.
        let told = problems.iter().any(|problem| problem.starts_with(&format!("`{key}`")));
        if !told {
            let wanted = properties.get(key).map(kind).unwrap_or_default();
            problems.push(format!("`{key}` is required ({wanted})"));
        }
    }
    (clean, problems)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn coerce(schema: &Value, value: Value, at: &str) -> Result<Value, String> {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let fits = choices.iter().find(|choice| same_type(choice, &value));
        if let Some(choice) = fits {
            return coerce(choice, value, at);
        }
        let found = choices.iter().find_map(|choice| coerce(choice, value.clone(), at).ok());
        return found.ok_or_else(|| wrong(schema, &value, at));
    }
    let value = match schema.get("type").and_then(Value::as_str) {
        Some("string") => to_string(value).map_err(|value| wrong(schema, &value, at))?,
        Some("integer") => to_integer(&value).ok_or_else(|| wrong(schema, &value, at))?,
        Some("boolean") => to_boolean(&value).ok_or_else(|| wrong(schema, &value, at))?,
        Some("array") => return to_array(schema, value, at),
        Some("object") => return to_object(schema, value, at),
        _ => value,
    };
    one_of(schema, value, at)
}

fn one_of(schema: &Value, value: Value, at: &str) -> Result<Value, String> {
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else { return Ok(value) };
    if allowed.contains(&value) {
        return Ok(value);
    }
    let loose = |text: &str| text.trim().to_lowercase().replace(['-', ' '], "_");
    let given = value.as_str().map(loose);
    let same = allowed.iter().find(|one| one.as_str().map(loose) == given && given.is_some());
    same.cloned().ok_or_else(|| wrong(schema, &value, at))
}

fn to_string(value: Value) -> Result<Value, Value> {
    match value {
        Value::String(_) => Ok(value),
        Value::Number(number) => Ok(Value::String(number.to_string())),
        Value::Bool(flag) => Ok(Value::String(flag.to_string())),
        other => Err(other),
    }
}

fn to_integer(value: &Value) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let from_float = |float: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range of a double")]
        (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
    };
    let integer = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(from_float))?,
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().and_then(from_float))?
        }
        _ => return None,
    };
    Some(Value::from(integer))
}

fn to_boolean(value: &Value) -> Option<Value> {
    let flag = match value {
        Value::Bool(flag) => *flag,
        Value::Number(number) => match number.as_i64()? {
            0 => false,
            1 => true,
            _ => return None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => true,
            "false" | "no" | "0" => false,
            _ => return None,
        },
        _ => return None,
    };
    Some(Value::Bool(flag))
}

fn to_array(schema: &Value, value: Value, at: &str) -> Result<Value, String> {
    let items = schema.get("items").unwrap_or(&Value::Null);
    let list = match value {
        Value::Array(list) => list,
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Array(list)) => list,
            // One text where a list of texts is wanted.
            _ if items.get("type").and_then(Value::as_str) == Some("string") && !text.trim().is_empty() => {
                vec![Value::String(text)]
            }
            _ => return Err(wrong(schema, &Value::String(text), at)),
        },
        other => return Err(wrong(schema, &other, at)),
    };
    let each = list.into_iter().enumerate().map(|(index, item)| coerce(items, item, &format!("{at}[{index}]")));
    each.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn to_object(schema: &Value, value: Value, at: &str) -> Result<Value, String> {
    let map = match value {
        Value::Object(map) => map,
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => map,
            _ => return Err(wrong(schema, &Value::String(text), at)),
        },
        other => return Err(wrong(schema, &other, at)),
    };
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(Value::Object(map)) };
    let mut clean = JsonMap::new();
    // Models decorate list items (`id`, `priority`): what is not declared inside one is dropped.
    for (key, property) in properties {
        if let Some(value) = map.get(key).filter(|value| !value.is_null()) {
            clean.insert(key.clone(), coerce(property, value.clone(), &format!("{at}.{key}"))?);
        }
    }
    match required(schema).find(|key| !clean.contains_key(*key)) {
        Some(key) => {
            let wanted = properties.get(key).map(kind).unwrap_or_default();
            Err(format!("`{at}.{key}` is required ({wanted})"))
        }
        None => Ok(Value::Object(clean)),
    }
}

fn same_type(schema: &Value, value: &Value) -> bool {
    matches!(
        (schema.get("type").and_then(Value::as_str), value),
        (Some("string"), Value::String(_))
            | (Some("integer" | "number"), Value::Number(_))
            | (Some("boolean"), Value::Bool(_))
            | (Some("array"), Value::Array(_))
            | (Some("object"), Value::Object(_))
    )
}

fn wrong(schema: &Value, value: &Value, at: &str) -> String {
    let got = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the string {:?}", deerflow_core::text::ellipsis(text, 60)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("`{at}` must be {}, got {got}", kind(schema))
}

/// A schema in words: `integer`, `list of string`, `one of a, b`.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return format!("one of {}", allowed.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}", schema.get("items").map_or_else(|| "anything".to_owned(), kind)),
        Some(name) => name.to_owned(),
        None => "anything".to_owned(),
    }
}

fn describe_arguments(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return "none".to_owned() };
    let describe = |(key, property): (&String, &Value)| {
        let needed = if required(schema).any(|name| name == key) { ", required" } else { "" };
        format!("{key} ({}{needed})", kind(property))
    };
    properties.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The declared name that `key` most likely means.
fn nearest<'a>(key: &str, properties: &'a JsonMap) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
    let given = plain(key);
    let score = |name: &str| {
        let name = plain(name);
        let sorted = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        // `file_path` for `path`, `line_start` for `start_line`, `cmd` for `command`.
        let contained = name.len() >= 3 && given.len() >= 3 && (given.contains(&name) || name.contains(&given));
        let short = given.len() >= 3 && name.chars().next() == given.chars().next() && is_subsequence(&given, &name);
        let same = contained || short || sorted(&name) == sorted(&given);
        if same { 1.0 } else { strsim::normalized_damerau_levenshtein(&given, &name) }
    };
    let best = properties.keys().filter(|name| *name != HARMLESS).map(|name| (score(name), name.as_str()));
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.5).then_some(best.1)
}

fn is_subsequence(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde::Deserialize;
    use serde_json::json;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "t".into(),
            description: String::new(),
            parameters: json!({"type": "object", "required": ["description", "path"], "properties": {
                "description": {"type": "string"},
                "path": {"type": "string"},
                "start_line": {"type": "integer"},
                "all": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
                "outline": {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}}]},
                "todos": {"type": "array", "items": {"type": "object", "required": ["content"], "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress"]}}}},
            }}),
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default)]
    struct Args {
        description: String,
        path: String,
        start_line: Option<i64>,
        all: bool,
        names: Vec<String>,
        outline: Value,
        todos: Value,
    }

    impl Default for Args {
        fn default() -> Self {
            let description = String::new();
            let path = String::new();
            Self {
                description,
                path,
                start_line: None,
                all: false,
                names: vec![],
                outline: Value::Null,
                todos: Value::Null,
            }
        }
    }

    fn ok(args: Value) -> Args {
        let Value::Object(map) = args else { panic!("object") };
        parse(&spec(), map).unwrap()
    }

    fn problem(args: Value) -> String {
        let Value::Object(map) = args else { panic!("object") };
        match parse::<Args>(&spec(), map).unwrap_err() {
            ToolError::Respond(text) => text.split(". Arguments of").next().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_and_flags_sent_as_strings_are_understood() {
        let args = ok(json!({"path": 7, "start_line": " 12 ", "all": "True", "names": "a.txt"}));
        assert_eq!(args.path, "7");
        assert_eq!((args.start_line, args.all), (Some(12), true));
        assert_eq!(args.names, ["a.txt"]);
        assert_eq!(ok(json!({"path": "p", "start_line": 3.0})).start_line, Some(3));
        assert_eq!(ok(json!({"path": "p", "start_line": "-1"})).start_line, Some(-1));
        assert_eq!(ok(json!({"path": "p", "names": "[\"a\",\"b\"]"})).names, ["a", "b"]);
    }

    #[test]
    fn nulls_and_a_missing_description_do_not_fail_the_call() {
        assert_eq!(ok(json!({"path": "p", "start_line": null, "description": null})).start_line, None);
    }

    #[test]
    fn every_wrong_field_is_named_with_what_was_expected() {
        assert_eq!(
            problem(json!({"file_path": "p", "start_line": "x", "all": "maybe"})),
            "Invalid arguments for t: `file_path` is not an argument (did you mean `path`?); `start_line` must be integer, got \
             the string \"x\"; `all` must be boolean, got the string \"maybe\"; `path` is required (string)"
        );
        assert_eq!(problem(json!({"path": {}})), "Invalid arguments for t: `path` must be string, got an object");
        assert_eq!(
            problem(json!({"path": "p", "line_start": 1})),
            "Invalid arguments for t: `line_start` is not an argument (did you mean `start_line`?)"
        );
        assert_eq!(problem(json!({"path": "p", "zzz": 1})), "Invalid arguments for t: `zzz` is not an argument");
    }

    #[test]
    fn the_error_lists_the_arguments_of_the_tool() {
        let ToolError::Respond(text) = parse::<Args>(&spec(), JsonMap::new()).unwrap_err() else { panic!() };
        assert!(
            text.contains("Arguments of t: description (string, required), path (string, required), start_line (integer), all (boolean)"),
            "{text}"
        );
    }

    #[test]
    fn lists_of_objects_keep_declared_keys_and_loose_enum_spellings() {
        let args = ok(json!({"path": "p", "todos": [{"content": "a", "status": "In-Progress", "id": 4}]}));
        assert_eq!(args.todos, json!([{"content": "a", "status": "in_progress"}]));
        assert_eq!(
            problem(json!({"path": "p", "todos": [{"content": "a"}, {"content": "b", "status": "done"}]})),
            "Invalid arguments for t: `todos[1].status` must be one of pending, in_progress, got the string \"done\""
        );
        assert_eq!(
            problem(json!({"path": "p", "todos": [{}]})),
            "Invalid arguments for t: `todos[0].content` is required (string)"
        );
    }

    #[test]
    fn a_choice_of_types_takes_each_and_coerces_last() {
        assert_eq!(ok(json!({"path": "p", "outline": ["a"]})).outline, json!(["a"]));
        assert_eq!(ok(json!({"path": "p", "outline": "true"})).outline, json!(true));
        assert_eq!(ok(json!({"path": "p", "outline": "a.pdf"})).outline, json!(["a.pdf"]));
    }
}
