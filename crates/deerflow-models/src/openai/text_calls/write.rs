//! What a model that writes its calls as text is sent: the tools in the prompt, earlier calls as it would write them, results
//! as the user's words.

use crate::legalise::settle_calls;
use deerflow_config::ToolCallFormat;
use deerflow_core::{ChatRequest, Content, Message, MessageKind, ToolCall, ToolChoice, ToolSpec};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// The request without calls and results in fields of their own, and without tools unless `keep_tools`, in which case the
/// prompt does not describe them. Every call is answered in it.
pub(in crate::openai) fn as_text(format: ToolCallFormat, keep_tools: bool, request: &ChatRequest) -> ChatRequest {
    let mut changed = request.clone();
    changed.messages = settle_calls(&request.messages).into_iter().map(|message| rewrite(format, message)).collect();
    if keep_tools {
        return changed;
    }
    changed.tool_choice = ToolChoice::Auto;
    let tools = std::mem::take(&mut changed.tools);
    if !tools.is_empty() {
        let described = describe(format, &tools, &request.tool_choice);
        changed.system = Some(match &request.system {
            Some(system) => format!("{system}\n\n{described}").into(),
            None => described.into(),
        });
    }
    changed
}

fn rewrite(format: ToolCallFormat, message: Arc<Message>) -> Arc<Message> {
    match &message.kind {
        MessageKind::Ai(part) if !part.tool_calls.is_empty() => {
            let said = message.text();
            let calls = part.tool_calls.iter().map(|call| write_call(format, call));
            let said = Some(said.trim().to_owned()).filter(|said| !said.is_empty());
            let text = said.into_iter().chain(calls).collect::<Vec<_>>().join("\n");
            let mut changed = Message::clone(&message);
            changed.content = Content::Text(text);
            if let Some(part) = changed.as_ai_mut() {
                part.tool_calls.clear();
            }
            Arc::new(changed)
        }
        MessageKind::Tool(_) => {
            let text = format!("<tool_response>\n{}\n</tool_response>", harmless(&message.text()));
            Arc::new(Message { id: message.id.clone(), ..Message::human(text).hidden() })
        }
        _ => message,
    }
}

/// A result that cannot end itself early or look like a call.
fn harmless(text: &str) -> String {
    const MARKS: &[&str] = &["<tool_response", "</tool_response", "<tool_call", "</tool_call"];
    MARKS.iter().fold(text.to_owned(), |text, mark| text.replace(mark, &mark.replace('<', "&lt;")))
}

pub(super) fn write_call(format: ToolCallFormat, call: &ToolCall) -> String {
    let as_json = || json!({"name": call.name, "arguments": call.args});
    match format {
        ToolCallFormat::Native | ToolCallFormat::FencedJson => format!("```tool_call\n{}\n```", as_json()),
        ToolCallFormat::ToolCallTags => format!("<tool_call>\n{}\n</tool_call>", as_json()),
        ToolCallFormat::Xml => {
            let mut text = format!("<tool_call>\n<function={}>\n", call.name);
            for (key, value) in &call.args {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                // Writing to a string does not fail.
                let _ = writeln!(text, "<parameter={key}>\n{value}\n</parameter>");
            }
            text + "</function>\n</tool_call>"
        }
    }
}

fn describe(format: ToolCallFormat, tools: &[Arc<ToolSpec>], choice: &ToolChoice) -> String {
    let list: Vec<String> = tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}).to_string()
        })
        .collect();
    let shape = match format {
        ToolCallFormat::Native | ToolCallFormat::FencedJson => {
            "```tool_call\n{\"name\": \"<name of the tool>\", \"arguments\": {\"<parameter>\": <value>}}\n```"
        }
        ToolCallFormat::ToolCallTags => {
            "<tool_call>\n{\"name\": \"<name of the tool>\", \"arguments\": {\"<parameter>\": <value>}}\n</tool_call>"
        }
        ToolCallFormat::Xml => {
            "<tool_call>\n<function=NAME_OF_THE_TOOL>\n<parameter=NAME_OF_THE_PARAMETER>\nvalue, over as many lines as it \
             needs\n</parameter>\n</function>\n</tool_call>"
        }
    };
    let must = match choice {
        ToolChoice::Auto => "",
        ToolChoice::Required => "\nYour next reply has to call at least one of them.",
        ToolChoice::None => "\nDo not call any of them in your next reply.",
    };
    format!(
        "# Tools\n\nYou can call these tools, one a line, each with the JSON Schema of its parameters:\n<tools>\n{}\n</tools>\n\n\
         To call a tool, write exactly this, outside any other block:\n{shape}\n\nWrite one such block for each call, and nothing \
         behind the last one. The results come in the next message, each in <tool_response></tool_response>, in the order of \
         the calls. Never write a <tool_response> yourself.{must}",
        list.join("\n")
    )
}
