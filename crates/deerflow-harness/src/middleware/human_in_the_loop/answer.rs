//! A person's answer: read as a whole before anything is done.

use super::config::{DecisionType, Rule};
use deerflow_core::text::ellipsis;
use deerflow_core::{Content, ContentBlock, JsonMap, Message, ToolCall};
use deerflow_tools::neutralise::neutralise;
use serde_json::{Value, json};
use std::collections::HashMap;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Approve,
    Edit { name: String, args: JsonMap },
    Reject(Option<String>),
    Respond(String),
}

impl Outcome {
    pub(super) fn kind(&self) -> DecisionType {
        match self {
            Self::Approve => DecisionType::Approve,
            Self::Edit { .. } => DecisionType::Edit,
            Self::Reject(_) => DecisionType::Reject,
            Self::Respond(_) => DecisionType::Respond,
        }
    }
}

/// Reads one decision for each call, in order. What was allowed is what the question said, not what the configuration says
/// by now; `rules` are for a call that is edited into one of another tool.
///
/// # Errors
/// What is wrong with the answer and what was expected, for the person who gave it.
pub(super) fn read_answer(
    calls: &[&ToolCall],
    question: &Value,
    answer: &Value,
    rules: &HashMap<String, Rule>,
) -> Result<Vec<Outcome>, String> {
    let wanted = || {
        let list: Vec<String> = calls
            .iter()
            .enumerate()
            .map(|(index, call)| format!("{}: {}", call.name, words(&allowed(question, index))))
            .collect();
        format!(
            "expected {{\"decisions\": [...]}} with {} {}, in this order: {}",
            calls.len(),
            if calls.len() == 1 { "decision" } else { "decisions" },
            list.join("; ")
        )
    };
    let Some(decisions) = answer.get("decisions").and_then(Value::as_array) else {
        return Err(format!("the answer has no list of decisions; {}", wanted()));
    };
    if decisions.len() != calls.len() {
        return Err(format!("the answer has {} decisions; {}", decisions.len(), wanted()));
    }
    let read = calls.iter().zip(decisions).enumerate();
    read.map(|(index, (call, decision))| {
        one(call, &allowed(question, index), decision, rules)
            .map_err(|problem| format!("decision {} ({}): {problem}", index + 1, call.name))
    })
    .collect()
}

fn allowed(question: &Value, index: usize) -> Vec<DecisionType> {
    let list = question.pointer(&format!("/review_configs/{index}/allowed_decisions")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|kind| DecisionType::parse(kind.as_str()?)).collect()
}

fn words(kinds: &[DecisionType]) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

fn one(
    call: &ToolCall,
    allowed: &[DecisionType],
    decision: &Value,
    rules: &HashMap<String, Rule>,
) -> Result<Outcome, String> {
    let kind = decision.get("type").and_then(Value::as_str).unwrap_or_default();
    let Some(kind) = DecisionType::parse(kind).filter(|kind| allowed.contains(kind)) else {
        let kind = if kind.is_empty() { "no type".to_owned() } else { format!("`{}`", ellipsis(kind, 40)) };
        return Err(format!("{kind} is not allowed; expected one of {}", words(allowed)));
    };
    let message = match decision.get("message") {
        None | Some(Value::Null) => None,
        // A person's words, as everywhere, must not pass for the harness's.
        Some(Value::String(text)) => Some(neutralise(text).into_owned()),
        Some(_) => return Err("`message` must be a string".to_owned()),
    };
    Ok(match kind {
        DecisionType::Approve => Outcome::Approve,
        DecisionType::Reject => Outcome::Reject(message.filter(|text| !text.trim().is_empty())),
        DecisionType::Respond => Outcome::Respond(message.ok_or("expected `message`, the text of the result")?),
        DecisionType::Edit => {
            let shape = "expected `edited_action` with `name` (a string) and `args` (an object)";
            let action = decision.get("edited_action").ok_or(shape)?;
            let args = action.get("args").and_then(Value::as_object).ok_or(shape)?.clone();
            let name = match action.get("name") {
                None => call.name.clone(),
                Some(Value::String(name)) if !name.trim().is_empty() => name.clone(),
                Some(_) => return Err(shape.to_owned()),
            };
            let forbids = |rule: &Rule| !rule.allowed.contains(&DecisionType::Approve);
            if name != call.name && rules.get(&name).is_some_and(forbids) {
                return Err(format!("calls of {name} may not be approved, so this one cannot be made one of them"));
            }
            Outcome::Edit { name, args }
        }
    })
}

/// Gives a call of the message another name and other arguments, wherever the message has it: providers' raw copies must
/// not go on saying what was not run.
pub(super) fn rewrite(message: &mut Message, call_id: &str, name: &str, args: &JsonMap) {
    if let Some(part) = message.as_ai_mut()
        && let Some(call) = part.tool_calls.iter_mut().find(|call| call.id() == call_id)
    {
        call.name = name.to_owned();
        call.args = args.clone();
    }
    let written = || Value::String(Value::Object(args.clone()).to_string());
    if let Some(Value::Array(raw)) = message.additional_kwargs.get_mut("tool_calls") {
        for call in raw.iter_mut().filter(|call| call.get("id").and_then(Value::as_str) == Some(call_id)) {
            call["function"]["name"] = json!(name);
            call["function"]["arguments"] = written();
        }
    }
    if let Content::Blocks(blocks) = &mut message.content {
        for block in blocks {
            let ContentBlock::Raw(Value::Object(map)) = block else { continue };
            let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
            let (id_key, args_key, args) = match kind {
                "tool_use" => ("id", "input", json!(args)),
                "tool_call" => ("id", "args", json!(args)),
                "function_call" => ("call_id", "arguments", written()),
                _ => continue,
            };
            if map.get(id_key).and_then(Value::as_str) == Some(call_id) {
                map.insert("name".to_owned(), json!(name));
                map.insert(args_key.to_owned(), args);
            }
        }
    }
}
