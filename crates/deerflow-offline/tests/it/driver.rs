//! Plays the harness and its tools over files in memory until the model answers.

use deerflow_core::{
    ChatModel, ChatRequest, JsonMap, Message, ModelEvent, ToolSpec, ToolStatus, TurnAccumulator, message::kwargs, text,
};
use deerflow_offline::OfflineModel;
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) const ALL: &[&str] =
    &["read_file", "write_file", "present_files", "write_todos", "list_uploaded_files", "bash"];

pub(crate) struct World {
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) tools: Vec<&'static str>,
    pub(crate) presented: Vec<String>,
    /// Answers of `write_file`, first come first served; then it works.
    pub(crate) write_errors: Vec<&'static str>,
    pub(crate) limit: usize,
    pub(crate) turns: usize,
    /// Names of all calls in order.
    pub(crate) calls: Vec<String>,
}

pub(crate) fn upload(name: &str) -> String {
    format!("/mnt/user-data/uploads/{name}")
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            messages: Vec::new(),
            tools: ALL.to_vec(),
            presented: Vec::new(),
            write_errors: Vec::new(),
            limit: 50_000,
            turns: 0,
            calls: Vec::new(),
        }
    }

    /// A person sends `request` with these files; a file without text cannot be read.
    pub(crate) fn ask(&mut self, request: &str, files: &[(&str, Option<&str>)]) -> String {
        let mut block = String::new();
        for (name, text) in files {
            let size = text.map_or(0, str::len) as f64 / 1024.0;
            block.push_str(&format!("- {name} ({size:.1} KB)\n  Path: {}\n", upload(name)));
            self.files.extend(text.map(|text| (upload(name), text.to_owned())));
        }
        let input = format!("--- BEGIN USER INPUT ---\n{request}\n--- END USER INPUT ---");
        let content = if files.is_empty() {
            input
        } else {
            format!(
                "<current_uploads>\nFiles uploaded with this message:\n\n{block}\nUse `read_file` to read them.\n</current_uploads>\n\n{input}"
            )
        };
        self.messages.push(Arc::new(
            Message::human("<system-reminder><current_date>2026-01-02</current_date></system-reminder>").hidden(),
        ));
        self.messages.push(Arc::new(Message::human(content).with_kwarg(kwargs::ORIGINAL_USER_CONTENT, request)));
        self.run()
    }

    fn request(&self) -> ChatRequest {
        let spec =
            |name: &&str| ToolSpec { name: (*name).to_owned(), description: String::new(), parameters: json!({}) };
        ChatRequest {
            messages: self.messages.clone(),
            tools: self.tools.iter().map(|name| Arc::new(spec(name))).collect(),
            ..ChatRequest::default()
        }
    }

    pub(crate) fn run(&mut self) -> String {
        for turn in 1..=40 {
            self.turns = turn;
            let message = reply(self.request());
            self.messages.push(Arc::new(message.clone()));
            if message.tool_calls().is_empty() {
                return message.text().into_owned();
            }
            for call in message.tool_calls() {
                assert!(self.tools.contains(&call.name.as_str()), "{} was not offered", call.name);
                self.calls.push(call.name.clone());
                let result = self.tool(&call.name, &call.args);
                let mut answer = Message::tool(result.clone(), call.id(), call.name.clone());
                if result.starts_with("Error")
                    && result.lines().count() == 1
                    && let Some(part) = answer.as_tool_mut()
                {
                    part.status = ToolStatus::Error;
                }
                self.messages.push(Arc::new(answer));
            }
        }
        panic!("no answer after 40 turns");
    }

    fn tool(&mut self, name: &str, args: &JsonMap) -> String {
        let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{name} without {key}"));
        match name {
            "read_file" => {
                assert!(args.contains_key("description"));
                let from = args.get("start_line").and_then(Value::as_u64).unwrap_or(1) as usize;
                self.read(text("path"), from)
            }
            "write_file" => {
                if !self.write_errors.is_empty() {
                    return self.write_errors.remove(0).to_owned();
                }
                let (path, content) = (text("path").to_owned(), text("content").to_owned());
                assert!(content.len() < 80 * 1024, "a report of {} bytes is refused", content.len());
                self.files.insert(path, content);
                "OK".to_owned()
            }
            "present_files" => {
                let paths = args["filepaths"].as_array().expect("a list");
                self.presented.extend(paths.iter().map(|path| path.as_str().expect("a path").to_owned()));
                "Successfully presented files".to_owned()
            }
            other => panic!("an unexpected call of {other}"),
        }
    }

    fn read(&self, path: &str, from: usize) -> String {
        let Some(all) = self.files.get(path) else {
            return format!("Error: cannot read {path}: the file is encrypted");
        };
        if all.is_empty() {
            return "(empty)".to_owned();
        }
        let lines: Vec<&str> = all.lines().collect();
        if from > lines.len() {
            return "(start_line exceeds file length)".to_owned();
        }
        let shown = lines[from - 1..].join("\n");
        let total = shown.chars().count();
        if total <= self.limit {
            return shown;
        }
        let mut whole = 0;
        while lines[from - 1..=from - 1 + whole].join("\n").chars().count() <= self.limit {
            whole += 1;
        }
        let advice = match whole {
            0 => format!("line {from} is cut: it is too long to show"),
            _ => {
                format!("lines {from}-{} of {}; go on with start_line={}", from + whole - 1, lines.len(), from + whole)
            }
        };
        let head = text::head(&shown, self.limit);
        format!("{head}\n... [truncated: showing first {} of {total} chars, {advice}] ...", self.limit)
    }

    /// The one report that was presented.
    pub(crate) fn report(&self) -> &str {
        assert_eq!(self.presented.len(), 1, "presented: {:?}", self.presented);
        &self.files[&self.presented[0]]
    }
}

/// One turn, with what every stream must keep to.
pub(crate) fn reply(request: ChatRequest) -> Message {
    let model = OfflineModel::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let events: Vec<_> = runtime.block_on(model.stream(request, CancellationToken::new()).collect());
    let mut sum = TurnAccumulator::default();
    let (last, deltas) = events.split_last().expect("a stream is never empty");
    for delta in deltas.iter().cloned() {
        match delta {
            Ok(ModelEvent::Delta(delta)) => sum.push(&delta),
            other => panic!("not a delta: {other:?}"),
        }
    }
    let Ok(ModelEvent::Finished(turn)) = last else { panic!("not finished: {last:?}") };
    let sum = sum.finish();
    assert_eq!(sum.content, turn.message.content);
    assert_eq!(sum.tool_calls(), turn.message.tool_calls());
    assert_eq!(turn.message.response_metadata["offline"], true);
    turn.message.clone()
}
