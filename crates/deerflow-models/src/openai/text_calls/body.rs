//! What stands inside the marks of a call: JSON, or one of the XML spellings that models are trained on.

use super::TextCall;
use deerflow_core::{JsonMap, ToolSpec};
use serde_json::Value;
use std::sync::Arc;

/// The calls in `text`; `None` when it is anything else. With `strict`, a call as JSON has arguments.
pub(super) fn calls(text: &str, offered: &[Arc<ToolSpec>], strict: bool) -> Option<Vec<TextCall>> {
    let read = |text: &str| {
        let text = text.trim();
        if text.starts_with('{') || text.starts_with('[') {
            return json(text, strict);
        }
        let found = xml(text, offered);
        (!found.is_empty()).then_some(found)
    };
    // Marks within the marks: they were nested, or an end was forgotten.
    read(text).or_else(|| read(&text.replace("<tool_call>", "\n").replace("</tool_call>", "\n")))
}

/// A call that cannot be read, so that its model is told: the name where one can be seen, and the text as its arguments.
pub(super) fn unreadable(text: &str) -> TextCall {
    let after = |mark: &str, end: &[char]| {
        let (_, rest) = text.split_once(mark)?;
        let name = rest.trim_start_matches([' ', ':', '"']).split(end).next()?.trim();
        (!name.is_empty() && name.len() <= 64).then(|| name.to_owned())
    };
    let name = after("\"name\"", &['"', ',', '}', '\n'])
        .or_else(|| after("<function=", &['>', '<', '\n']))
        .or_else(|| after("<invoke name=", &['"', '>', '\n']));
    // An object that is no call must not read as its arguments.
    let name = name.filter(|_| serde_json::from_str::<JsonMap>(text).is_err());
    TextCall { name, args: text.to_owned() }
}

/// Whether `text` looks like a call that went wrong, rather than like words.
pub(super) fn resembles_call(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['{', '['])
        || ["<function", "<invoke", "<parameter", "<arg_key", "<tool_call"].iter().any(|mark| text.contains(mark))
}

/// Objects, one after the other or in lists.
pub(super) fn json(text: &str, strict: bool) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        collect(&value.ok()?, strict, &mut calls)?;
    }
    (!calls.is_empty()).then_some(calls)
}

fn collect(value: &Value, strict: bool, calls: &mut Vec<TextCall>) -> Option<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, strict, calls)),
        Value::Object(object) => {
            if let Some(list @ Value::Array(_)) = object.get("tool_calls") {
                return collect(list, strict, calls);
            }
            let (name_of, args_of) = match object.get("function") {
                Some(Value::Object(function)) => (function, function),
                _ => (object, object),
            };
            let name = ["name", "tool", "tool_name", "function"].iter().find_map(|key| name_of.get(*key)?.as_str())?;
            let args = ["arguments", "parameters", "args", "input"].iter().find_map(|key| args_of.get(*key));
            let args = match args {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None if strict => return None,
                None => "{}".to_owned(),
            };
            calls.push(TextCall { name: Some(name.to_owned()), args });
            Some(())
        }
        _ => None,
    }
}

/// How one spelling marks the names of calls and of their arguments. A name stands before `>`, perhaps in quotes.
struct Spelling {
    call: &'static str,
    argument: &'static str,
    argument_end: &'static str,
}

const SPELLINGS: &[Spelling] = &[
    // Qwen3-Coder, MindIE
    Spelling { call: "<function=", argument: "<parameter=", argument_end: "</parameter>" },
    // MiniMax-M2
    Spelling { call: "<invoke name=", argument: "<parameter name=", argument_end: "</parameter>" },
];

fn xml(text: &str, offered: &[Arc<ToolSpec>]) -> Vec<TextCall> {
    for spelling in SPELLINGS {
        let mut calls = Vec::new();
        // What stands before the first mark is another opening tag, or nothing.
        for piece in pieces(text, spelling.call, spelling) {
            let Some((name, rest)) = name_of(piece) else { continue };
            let mut args = JsonMap::new();
            for argument in rest.split(spelling.argument).skip(1) {
                let Some((key, value)) = name_of(argument) else { continue };
                let value = value.split_once(spelling.argument_end).map_or(value, |(value, _)| value);
                args.insert(key.clone(), decode(value, offered, &name, &key));
            }
            calls.push(TextCall { name: Some(name), args: Value::Object(args).to_string() });
        }
        if !calls.is_empty() {
            return calls;
        }
    }
    arg_pairs(text, offered).into_iter().collect()
}

/// The texts behind each mark that does not stand inside an argument.
fn pieces<'t>(text: &'t str, mark: &str, spelling: &Spelling) -> Vec<&'t str> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(mark) {
        let start = at + found + mark.len();
        starts.push(start);
        // Skip over arguments, whose values may mention anything.
        let mut inside = start;
        loop {
            let next_call = text[inside..].find(mark);
            let Some(argument) = text[inside..].find(spelling.argument) else { break };
            if next_call.is_some_and(|next| next < argument) {
                break;
            }
            match text[inside + argument..].find(spelling.argument_end) {
                Some(end) => inside += argument + end + spelling.argument_end.len(),
                None => {
                    inside = text.len();
                    break;
                }
            }
        }
        at = inside;
    }
    let ends = starts.iter().skip(1).map(|start| start - mark.len()).chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// A name and what follows its `>`.
fn name_of(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.split_once('>')?;
    // Further attributes say nothing that the tool's schema does not.
    let name = match name.trim().strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => name,
    };
    let name = name.trim().trim_matches('\'');
    (!name.is_empty() && !name.contains('<')).then(|| (name.to_owned(), rest))
}

/// GLM: the name, then `<arg_key>` and `<arg_value>` in turn.
fn arg_pairs(text: &str, offered: &[Arc<ToolSpec>]) -> Option<TextCall> {
    let name = text.split(['<', '\n']).next()?.trim();
    let known = offered.iter().any(|tool| tool.name == name);
    if name.is_empty() || name.contains(char::is_whitespace) || !(known || text.contains("<arg_key>")) {
        return None;
    }
    let mut args = JsonMap::new();
    for pair in text.split("<arg_key>").skip(1) {
        let (key, rest) = pair.split_once("</arg_key>")?;
        let (_, value) = rest.split_once("<arg_value>")?;
        let value = value.split_once("</arg_value>").map_or(value, |(value, _)| value);
        let key = key.trim();
        args.insert(key.to_owned(), decode(value, offered, name, key));
    }
    Some(TextCall { name: Some(name.to_owned()), args: Value::Object(args).to_string() })
}

/// The value of an argument that stands there as text: text where the tool wants text, else JSON where it is JSON.
fn decode(text: &str, offered: &[Arc<ToolSpec>], tool: &str, key: &str) -> Value {
    let text = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let schema =
        offered.iter().find(|spec| spec.name == tool).and_then(|spec| spec.parameters.get("properties")?.get(key));
    let wants_text = schema.and_then(|schema| schema.get("type")).is_some_and(|wanted| match wanted {
        Value::String(wanted) => wanted == "string",
        Value::Array(several) => several.iter().any(|wanted| wanted == "string"),
        _ => false,
    });
    let plain = || Value::String(text.to_owned());
    if wants_text {
        return plain();
    }
    let trimmed = text.trim();
    match serde_json::from_str(trimmed) {
        // Quotes around a word are more often meant than not.
        Ok(Value::String(_)) if schema.is_none() => plain(),
        Ok(value) => value,
        // As Python writes them.
        Err(_) => match trimmed {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            _ => plain(),
        },
    }
}
