//! The next reply: plan, read, write, present, answer.

use crate::ask::{Ask, COMPARE};
use crate::conversation::{Turn, file_name};
use crate::findings::Findings;
use crate::report;
use deerflow_core::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

/// After so many replies in a turn only an answer follows.
const MAX_STEPS: usize = 32;

/// What to say and which tools to call.
pub(crate) type Reply = (String, Vec<Call>);
/// A tool and its arguments, an object.
pub(crate) type Call = (&'static str, Value);

struct Step<'a> {
    chat: &'a ChatRequest,
    turn: Turn,
    ask: Ask,
}

/// The next turn of this conversation.
pub(crate) fn next(chat: &ChatRequest) -> Reply {
    let turn = Turn::read(&chat.messages);
    let ask = Ask::new(&turn.request);
    Step { chat, turn, ask }.reply()
}

impl Step<'_> {
    fn reply(&self) -> Reply {
        let (turn, ask) = (&self.turn, &self.ask);
        let honest = |why| (report::honest(ask, why), Vec::new());
        let (attached, known) = (!turn.uploads.is_empty(), turn.known());
        if self.chat.tools.is_empty() && !attached && known.is_empty() {
            return (report::plain(ask), Vec::new());
        }
        if ask.is("cannot") || (!attached && (ask.is("small-talk") || ask.text.is_empty())) {
            return honest("");
        }
        let mut both = turn.uploads.clone();
        // One file alone is compared with those of before.
        if ask.task == COMPARE && attached && both.len() < 2 {
            both.extend(known.iter().filter(|path| !turn.uploads.contains(path)).cloned());
        }
        let uploads = match &turn.listed {
            _ if attached => &both,
            Some(listed) if listed.is_empty() => return honest("no-files"),
            Some(listed) => listed,
            None if !known.is_empty() => &known,
            None if !ask.is("about-files") && !turn.earlier => return honest(""),
            None if !self.offered("list_uploaded_files") => return honest("no-attachment"),
            None => return self.call("look", "list_uploaded_files", json!({})),
        };
        let due = turn.pending(uploads);
        if !due.is_empty() && self.offered("read_file") {
            return self.read(&due);
        }
        let written = turn.writes.iter().find(|(_, error)| error.is_none()).map(|(path, _)| path);
        if let Some(path) = written.filter(|_| !turn.presented && self.offered("present_files")) {
            return self.call("present", "present_files", json!({"filepaths": [path]}));
        }
        let documents = turn.documents(uploads);
        if documents.iter().all(|document| document.failure.is_some()) {
            return self.finish(report::unreadable(ask, &documents));
        }
        let found = Findings::new(ask, &documents);
        let path = report::path(ask, uploads);
        let path = match (written, turn.writes.as_slice()) {
            (Some(path), _) => return self.finish(report::summary(&found, &ask.say_of("report-at", file_name(path)))),
            _ if found.off_topic || (!attached && !ask.is("writes")) => {
                return self.finish(report::summary(&found, ""));
            }
            _ if !self.offered("write_file") => return self.finish(report::summary(&found, ask.say("no-tool"))),
            (_, []) => path,
            // The name may be taken, and the file there is not ours to replace.
            (_, [_]) => path.replacen('.', "-2.", 1),
            (_, [.., (_, error)]) => {
                let why = ask.say_of("not-written", error.as_deref().unwrap_or_default());
                return self.finish(report::summary(&found, &why));
            }
        };
        let args = json!({"description": ask.say("write"), "path": path, "content": report::write(&found, uploads)});
        self.call("write", "write_file", args)
    }

    fn offered(&self, tool: &str) -> bool {
        let allowed = self.chat.tool_choice != ToolChoice::None && self.turn.steps < MAX_STEPS;
        allowed && self.chat.tools.iter().any(|spec| spec.name == tool)
    }

    fn call(&self, why: &str, tool: &'static str, args: Value) -> Reply {
        (self.ask.say_of("step", self.ask.say(why)), vec![(tool, args)])
    }

    fn read(&self, due: &[(String, usize)]) -> Reply {
        let mut calls = Vec::new();
        if self.turn.plans == 0 && self.offered("write_todos") {
            calls.push(self.plan(&["in_progress", "pending", "pending"]));
        }
        for (path, line) in due {
            let args = json!({"description": self.ask.say("read"), "path": path, "start_line": line});
            calls.push(("read_file", args));
        }
        let names: Vec<&str> = due.iter().map(|(path, _)| file_name(path)).collect();
        (self.ask.say_of("step", &self.ask.say_of("reading", &names.join(", "))), calls)
    }

    /// The plan, as far as there are states for its steps.
    fn plan(&self, states: &[&str]) -> Call {
        let steps = ["read", "pick", "write"].iter().zip(states);
        let todos = steps.map(|(step, status)| json!({"content": self.ask.say(step), "status": status}));
        ("write_todos", json!({ "todos": todos.collect::<Vec<_>>() }))
    }

    /// The answer, after what is left of the plan is closed: only steps that were done stay in it.
    fn finish(&self, answer: String) -> Reply {
        if self.turn.plans != 1 || !self.offered("write_todos") {
            return (answer, Vec::new());
        }
        let done = if self.turn.writes.iter().any(|(_, error)| error.is_none()) { 3 } else { 1 };
        (self.ask.say_of("step", self.ask.say("close")), vec![self.plan(&["completed"; 3][..done])])
    }
}
