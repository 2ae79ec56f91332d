//! Questions that a middleware stopped a run with: approvals of tool calls, and others.
//!
//! An approval has the shape of LangChain's human-in-the-loop: `action_requests` (`name, args, description`) and
//! `review_configs` (`action_name, allowed_decisions`); its answer is `{"decisions": […]}`, one for each request, in order.
//! Any other question is shown as it is, and answered with text or JSON.

use crate::console::Console;
use crate::render::{Renderer, describe_call, printable_line};
use deerflow_core::{Interrupt, JsonMap, ThreadId};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What a person may decide about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Approve,
    Reject,
    Edit,
    Respond,
}

impl Decision {
    const ALL: [Self; 4] = [Self::Approve, Self::Reject, Self::Edit, Self::Respond];

    fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Edit => "edit",
            Self::Respond => "respond",
        }
    }
    fn help(self) -> &'static str {
        match self {
            Self::Approve => "y = yes",
            Self::Reject => "n [REASON] = no",
            Self::Edit => "e {ARGUMENTS as JSON} = do this instead",
            Self::Respond => "r REPLY = answer in its place",
        }
    }
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.name() == name)
    }
    /// What is typed for it.
    fn from_key(word: &str) -> Option<Self> {
        Some(match word.to_lowercase().as_str() {
            "y" | "yes" | "approve" => Self::Approve,
            "n" | "no" | "reject" => Self::Reject,
            "e" | "edit" => Self::Edit,
            "r" | "respond" => Self::Respond,
            _ => return None,
        })
    }
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
struct Request {
    name: String,
    args: JsonMap,
    description: Option<String>,
    allowed: Vec<Decision>,
}

/// The calls of an approval; `None` when the question is of another kind.
fn requests(question: &Value) -> Option<Vec<Request>> {
    let requests = question.get("action_requests")?.as_array().filter(|requests| !requests.is_empty())?;
    let configs = question.get("review_configs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    requests
        .iter()
        .map(|request| {
            let name = request.get("name")?.as_str()?.to_owned();
            let config = configs.iter().find(|config| config.get("action_name").is_some_and(|n| *n == name));
            let names = config.and_then(|config| config.get("allowed_decisions")).and_then(Value::as_array);
            let allowed = match names {
                Some(names) => names.iter().filter_map(Value::as_str).filter_map(Decision::from_name).collect(),
                None => vec![Decision::Approve, Decision::Reject],
            };
            let args = request.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
            let description = request.get("description").and_then(Value::as_str).map(str::to_owned);
            Some(Request { name, args, description, allowed })
        })
        .collect()
}

/// The questions in words and JSON.
pub(crate) fn describe(questions: &[Interrupt]) -> String {
    let mut text = String::new();
    for question in questions {
        match requests(&question.value) {
            None => {
                let shown = question.value.as_str().map_or_else(|| pretty(&question.value), str::to_owned);
                let _ = writeln!(text, "It asks:\n\n{shown}\n");
            }
            Some(requests) => {
                text.push_str("It asks before it goes on:\n\n");
                for request in requests {
                    let _ = writeln!(text, "- {}", describe_call(&request.name, &request.args));
                    if let Some(description) = request.description.as_deref().filter(|d| !d.trim().is_empty()) {
                        let _ = writeln!(text, "\n{}\n", indent(description.trim()));
                    }
                    let args = json!(request.args);
                    // A description made from the arguments says it all.
                    if !request.description.as_deref().is_some_and(|d| d.contains(&args.to_string())) {
                        let _ = writeln!(text, "\n{}\n", indent(&pretty(&args)));
                    }
                }
            }
        }
    }
    text.trim_end().to_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Asks a person, call by call. `None` without one, or when they give no answer; how to answer later is said then.
pub(crate) async fn ask(
    questions: &[Interrupt],
    thread_id: &ThreadId,
    renderer: &mut Renderer,
    console: Option<&mut Console>,
) -> Option<Value> {
    let later = format!("deerflow resume {thread_id}, or for scripts: deerflow resume {thread_id} --answer approve");
    let Some(console) = console else {
        renderer.note(&format!("it needs your answer; give it on a terminal with: {later}"));
        return None;
    };
    let mut answers = JsonMap::new();
    for question in questions {
        let answer = match requests(&question.value) {
            Some(requests) => decisions(&requests, renderer, console).await,
            None => {
                let line = renderer.ask(console, "your answer, as text or JSON > ").await;
                let line = line.trim();
                (!line.is_empty()).then(|| free(line))
            }
        };
        let Some(answer) = answer else {
            renderer.note(&format!("no answer; give it later with: {later}"));
            return None;
        };
        answers.insert(question.id.clone(), answer);
    }
    Some(Value::Object(answers))
}

async fn decisions(requests: &[Request], renderer: &mut Renderer, console: &mut Console) -> Option<Value> {
    let mut decisions = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let call = printable_line(&describe_call(&request.name, &request.args));
        let place = if requests.len() > 1 { format!("{} of {}: ", at + 1, requests.len()) } else { String::new() };
        let choices = request.allowed.iter().map(|d| d.help()).collect::<Vec<_>>().join(", ");
        renderer.note(&format!("{place}{call}; {choices}"));
        decisions.push(loop {
            let line = renderer.ask(console, "may it? > ").await;
            if line.trim().is_empty() {
                return None;
            }
            match decide(request, &line) {
                Ok(decision) => break decision,
                Err(why) => renderer.note(&why),
            }
        });
    }
    Some(json!({"decisions": decisions}))
}

/// What a typed line decides about a call.
fn decide(request: &Request, line: &str) -> Result<Value, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let choices = || request.allowed.iter().map(|d| d.help()).collect::<Vec<_>>().join(", ");
    let decision = Decision::from_key(word).filter(|decision| request.allowed.contains(decision));
    let decision = decision.ok_or_else(|| format!("{word:?} is none of the choices: {}", choices()))?;
    Ok(match decision {
        // More words than a yes are no clear yes.
        Decision::Approve if !rest.is_empty() => {
            return Err(format!("a yes has no further words; choose again: {}", choices()));
        }
        Decision::Approve => json!({"type": "approve"}),
        Decision::Reject if rest.is_empty() => json!({"type": "reject"}),
        Decision::Reject => json!({"type": "reject", "message": rest}),
        Decision::Edit => {
            let args = serde_json::from_str::<JsonMap>(rest).map_err(|error| {
                format!("the arguments must be a JSON object: {error}; now they are {}", json!(request.args))
            })?;
            json!({"type": "edit", "edited_action": {"name": request.name, "args": args}})
        }
        Decision::Respond if rest.is_empty() => return Err("the reply is empty: r REPLY".to_owned()),
        Decision::Respond => json!({"type": "respond", "message": rest}),
    })
}

/// The answer that `--answer` gives to the open questions: `approve` or `reject` for every call, or JSON.
///
/// # Errors
/// What is wrong with it, for people. Nothing has been answered then.
pub(crate) fn from_flag(questions: &[Interrupt], text: &str) -> Result<Value, String> {
    let text = text.trim();
    let given = free(text);
    let by_id = given.as_object().filter(|map| questions.iter().all(|q| map.contains_key(&q.id)));
    let mut answers = JsonMap::new();
    for question in questions {
        let answer = by_id.and_then(|map| map.get(&question.id)).unwrap_or(&given);
        let answer = match requests(&question.value) {
            None => answer.clone(),
            Some(requests) => check(&requests, answer)?,
        };
        answers.insert(question.id.clone(), answer);
    }
    Ok(Value::Object(answers))
}

fn check(requests: &[Request], answer: &Value) -> Result<Value, String> {
    let usage = "`--answer` takes approve, reject, or {\"decisions\": [{\"type\": …}, …]}";
    let decisions: Vec<Value> = match answer {
        Value::String(word) => match Decision::from_key(word) {
            Some(decision @ (Decision::Approve | Decision::Reject)) => {
                vec![json!({"type": decision.name()}); requests.len()]
            }
            _ => return Err(usage.to_owned()),
        },
        other => other.get("decisions").and_then(Value::as_array).cloned().ok_or(usage)?,
    };
    if decisions.len() != requests.len() {
        return Err(format!("{} decisions are given, but {} calls wait", decisions.len(), requests.len()));
    }
    for (decision, request) in decisions.iter().zip(requests) {
        let name = decision.get("type").and_then(Value::as_str).unwrap_or_default();
        if !Decision::from_name(name).is_some_and(|decision| request.allowed.contains(&decision)) {
            let allowed = request.allowed.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
            return Err(format!("{:?} cannot be answered with {name:?}; allowed: {allowed}", request.name));
        }
    }
    Ok(json!({"decisions": decisions}))
}

/// JSON, or else the text itself.
fn free(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests;
