//! A question to the user: from the arguments of `ask_clarification` to readable text and the payload that clients draw as
//! buttons or a form. The clarification middleware calls this; the tool itself never runs.

mod fields;
mod options;

use deerflow_core::JsonMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use fields::{Field, FieldKind};

/// Name of the tool that asks.
pub const ASK_CLARIFICATION: &str = "ask_clarification";
/// What the model is told instead when questions are disabled for the run.
pub const CLARIFICATION_DISABLED: &str = "Clarification is disabled for this run: nobody can answer. Go on with your best \
     judgement, and state the assumptions you make.";

/// A question, ready for the message that carries it.
#[derive(Debug, Clone, PartialEq)]
pub struct Clarification {
    /// Id of the tool message: `clarification:<call id>`, or of 16 hexadecimal digits of the text's SHA-256. Also the
    /// payload's `request_id`.
    pub message_id: String,
    /// The question for people without a client that draws forms.
    pub text: String,
    /// `artifact.human_input`: version 1, or 2 with a form.
    pub payload: Value,
}

/// What the user can answer with.
#[derive(Debug, Clone, PartialEq)]
enum Input {
    FreeText,
    Choice(Vec<String>),
    Form(Vec<Field>),
}

/// The question in `args`. Never fails: an invalid form degrades to options, missing options to free text.
#[must_use]
pub fn clarification(call_id: &str, args: &JsonMap) -> Clarification {
    let kind = Kind::parse(args.get("clarification_type"));
    let question = scalar_text(args.get("question")).unwrap_or_else(|| "Could you clarify what you need?".to_owned());
    let context = scalar_text(args.get("context"));
    let choices = args.get("options").map(options::normalise).unwrap_or_default();
    let input = match args.get("fields").and_then(fields::normalise) {
        Some(form) => Input::Form(form),
        None if choices.is_empty() => Input::FreeText,
        None => Input::Choice(choices),
    };
    let text = readable(kind, &question, context.as_deref(), &input);
    let message_id = if call_id.is_empty() {
        let digest = Sha256::digest(text.as_bytes());
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("clarification:{hex}")
    } else {
        format!("clarification:{call_id}")
    };
    let payload = payload(&message_id, call_id, kind, question, context, &input);
    Clarification { message_id, text, payload }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MissingInfo,
    AmbiguousRequirement,
    ApproachChoice,
    RiskConfirmation,
    Suggestion,
}

impl Kind {
    fn parse(value: Option<&Value>) -> Self {
        match value.and_then(Value::as_str).map(str::trim) {
            Some("ambiguous_requirement") => Self::AmbiguousRequirement,
            Some("approach_choice") => Self::ApproachChoice,
            Some("risk_confirmation") => Self::RiskConfirmation,
            Some("suggestion") => Self::Suggestion,
            _ => Self::MissingInfo,
        }
    }
    fn name(self) -> &'static str {
        match self {
            Self::MissingInfo => "missing_info",
            Self::AmbiguousRequirement => "ambiguous_requirement",
            Self::ApproachChoice => "approach_choice",
            Self::RiskConfirmation => "risk_confirmation",
            Self::Suggestion => "suggestion",
        }
    }
    fn icon(self) -> &'static str {
        match self {
            Self::MissingInfo => "❓",
            Self::AmbiguousRequirement => "🤔",
            Self::ApproachChoice => "🔀",
            Self::RiskConfirmation => "⚠️",
            Self::Suggestion => "💡",
        }
    }
}

/// A value that is one piece of text, trimmed; `None` for blank text and for lists and objects.
fn scalar_text(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn readable(kind: Kind, question: &str, context: Option<&str>, input: &Input) -> String {
    let icon = kind.icon();
    let mut lines = match context {
        Some(context) => vec![format!("{icon} {context}"), String::new(), question.to_owned()],
        None => vec![format!("{icon} {question}")],
    };
    match input {
        Input::FreeText => {}
        Input::Choice(options) => {
            lines.push(String::new());
            lines.extend(options.iter().enumerate().map(|(index, option)| format!("  {}. {option}", index + 1)));
        }
        Input::Form(form) => {
            lines.push(String::new());
            lines.extend(
                form.iter().enumerate().map(|(index, field)| format!("  {}. {}", index + 1, field_line(field))),
            );
            lines.push(String::new());
            lines.push("Please answer each field.".to_owned());
        }
    }
    lines.join("\n")
}

fn field_line(field: &Field) -> String {
    let mut line = field.label.clone();
    if field.required {
        line.push_str(" (required)");
    }
    if !field.options.is_empty() {
        line.push_str(" — options: ");
        line.push_str(&field.options.join(" / "));
    }
    if field.kind == FieldKind::MultiSelect {
        line.push_str(" (multiple allowed)");
    }
    line
}

fn payload(
    request_id: &str,
    call_id: &str,
    kind: Kind,
    question: String,
    context: Option<String>,
    input: &Input,
) -> Value {
    let (version, mode) = match input {
        Input::FreeText => (1, "free_text"),
        Input::Choice(_) => (1, "choice_with_other"),
        Input::Form(_) => (2, "form"),
    };
    let mut map = JsonMap::new();
    map.insert("version".into(), json!(version));
    map.insert("kind".into(), json!("human_input_request"));
    map.insert("source".into(), json!(ASK_CLARIFICATION));
    map.insert("request_id".into(), json!(request_id));
    map.insert("clarification_type".into(), json!(kind.name()));
    map.insert("question".into(), json!(question));
    map.insert("input_mode".into(), json!(mode));
    if !call_id.is_empty() {
        map.insert("tool_call_id".into(), json!(call_id));
    }
    if let Some(context) = context {
        map.insert("context".into(), json!(context));
    }
    match input {
        Input::FreeText => {}
        Input::Choice(options) => {
            map.insert("options".into(), options::with_ids("option", options));
        }
        Input::Form(form) => {
            map.insert("fields".into(), form.iter().map(Field::to_value).collect());
        }
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests;
