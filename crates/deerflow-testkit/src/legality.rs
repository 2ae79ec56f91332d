//! What a provider would refuse in a request. Checked over every body the scripted model is sent.

use std::collections::BTreeSet;

use serde_json::Value;

/// Why a strict provider would answer 400. `at` is the index of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Violation {
    #[error("there are no messages")]
    NoMessages,
    #[error("message {at}: unknown role {role:?}")]
    UnknownRole { at: usize, role: String },
    #[error("message {at}: a system message that is not the first message")]
    LateSystem { at: usize },
    #[error("message {at}: {role} message without content")]
    Empty { at: usize, role: String },
    #[error("message {at}: `tool_calls` is there but empty")]
    EmptyCalls { at: usize },
    #[error("message {at}: tool call without an id")]
    CallWithoutId { at: usize },
    #[error("message {at}: tool call id {id} twice in one message")]
    RepeatedId { at: usize, id: String },
    #[error("message {at}: tool call {id} has the name {name:?}")]
    BadName { at: usize, id: String, name: String },
    #[error("message {at}: arguments of tool call {id} are no JSON object: {arguments}")]
    BadArguments { at: usize, id: String, arguments: String },
    #[error("message {at}: tool call {id} has no result right after it")]
    Unanswered { at: usize, id: String },
    #[error("message {at}: second result for tool call {id}")]
    AnsweredTwice { at: usize, id: String },
    #[error("message {at}: result for {id}, which the assistant message before it did not call")]
    Orphan { at: usize, id: String },
    #[error("message {at}: the last message is the assistant's own, there is nothing to answer")]
    NothingToAnswer { at: usize },
    #[error("the tool {name:?} has a name that providers refuse")]
    BadToolName { name: String },
    #[error("the tool {name} is offered twice")]
    ToolTwice { name: String },
    #[error("the tool {name} has parameters that are not of type object")]
    BadParameters { name: String },
}

impl Violation {
    /// Whether it is about calls and their results belonging together.
    #[must_use]
    pub fn is_about_answers(&self) -> bool {
        matches!(self, Self::Unanswered { .. } | Self::AnsweredTwice { .. } | Self::Orphan { .. })
    }
}

/// Everything that is wrong with a chat-completions body, in order.
#[must_use]
pub fn violations(body: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    check_tools(body, &mut found);
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    if messages.is_empty() {
        found.push(Violation::NoMessages);
    }
    // The calls that the results now coming in may answer, with the message that made them.
    let mut open = Open::default();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            open.close(&mut found);
        }
        match role {
            "system" | "developer" => {
                if at > 0 {
                    found.push(Violation::LateSystem { at });
                }
                require_content(at, role, message, &mut found);
            }
            "user" => require_content(at, role, message, &mut found),
            "assistant" => {
                let calls = message["tool_calls"].as_array().map(Vec::as_slice);
                match calls {
                    Some([]) => found.push(Violation::EmptyCalls { at }),
                    Some(calls) => open = check_calls(at, calls, &mut found),
                    None => require_content(at, role, message, &mut found),
                }
                if at + 1 == messages.len() {
                    found.push(Violation::NothingToAnswer { at });
                }
            }
            "tool" => {
                open.answer(at, message["tool_call_id"].as_str().unwrap_or_default(), &mut found);
                // An empty result is legal, a missing one is not.
                if !message["content"].is_string() && !message["content"].is_array() {
                    found.push(Violation::Empty { at, role: role.to_owned() });
                }
            }
            _ => found.push(Violation::UnknownRole { at, role: role.to_owned() }),
        }
    }
    open.close(&mut found);
    found
}

/// The calls of the last assistant message.
#[derive(Default)]
struct Open {
    at: usize,
    called: Vec<String>,
    answered: BTreeSet<String>,
}

impl Open {
    fn answer(&mut self, at: usize, id: &str, found: &mut Vec<Violation>) {
        let id = id.to_owned();
        if !self.called.contains(&id) {
            found.push(Violation::Orphan { at, id });
        } else if !self.answered.insert(id.clone()) {
            found.push(Violation::AnsweredTwice { at, id });
        }
    }

    fn close(&mut self, found: &mut Vec<Violation>) {
        let Self { at, called, answered } = std::mem::take(self);
        let missing = called.into_iter().filter(|id| !answered.contains(id));
        found.extend(missing.map(|id| Violation::Unanswered { at, id }));
    }
}

fn check_calls(at: usize, calls: &[Value], found: &mut Vec<Violation>) -> Open {
    let mut open = Open { at, ..Open::default() };
    for call in calls {
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        if id.is_empty() {
            found.push(Violation::CallWithoutId { at });
            continue;
        }
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        if !is_name(name) {
            found.push(Violation::BadName { at, id: id.clone(), name: name.to_owned() });
        }
        let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            found.push(Violation::BadArguments { at, id: id.clone(), arguments: arguments.to_owned() });
        }
        if open.called.contains(&id) {
            found.push(Violation::RepeatedId { at, id });
        } else {
            open.called.push(id);
        }
    }
    open
}

fn require_content(at: usize, role: &str, message: &Value, found: &mut Vec<Violation>) {
    let filled = match &message["content"] {
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => !parts.is_empty() && parts.iter().all(|part| part["text"] != ""),
        _ => false,
    };
    if !filled {
        found.push(Violation::Empty { at, role: role.to_owned() });
    }
}

fn check_tools(body: &Value, found: &mut Vec<Violation>) {
    let mut names = BTreeSet::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        let name = tool.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        if !is_name(name) {
            found.push(Violation::BadToolName { name: name.to_owned() });
        }
        if !names.insert(name) {
            found.push(Violation::ToolTwice { name: name.to_owned() });
        }
        // Absent parameters mean a tool without any.
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && parameters["type"] != "object" {
            found.push(Violation::BadParameters { name: name.to_owned() });
        }
    }
}

/// What OpenAI accepts as the name of a function.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
#[path = "legality_tests.rs"]
mod tests;
