//! The next reply: plan, read, write, present, answer.

use crate::ask::{Ask, COMPARE};
use crate::conversation::{Document, Turn, file_name};
use crate::findings::Findings;
use crate::report;
use deerflow_core::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

/// Replies of a turn that may ask for more of a file.
const MAX_ROUNDS: usize = 20;
/// What to say and which tools to call: each with its arguments, an object.
pub(crate) type Reply = (String, Vec<Call>);
type Call = (&'static str, Value);

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
        let attached = !turn.uploads.is_empty();
        let mut paths = match &turn.listed {
            _ if attached => turn.uploads.clone(),
            Some(listed) => listed.clone(),
            None => turn.known(),
        };
        if ask.is("cannot") || (!attached && (ask.is("small-talk") || ask.text.is_empty())) {
            return honest("");
        }
        if paths.is_empty() && turn.listed.is_none() && self.offered("list_uploaded_files") {
            return self.call("look", "list_uploaded_files", json!({}));
        }
        if paths.is_empty() {
            return honest("no-files");
        }
        // One file alone is compared with those of before.
        if ask.task == COMPARE && paths.len() < 2 {
            paths.extend(turn.known().into_iter().filter(|path| !turn.uploads.contains(path)));
        }
        let documents = turn.documents(&paths);
        let due = documents.iter().filter_map(|document| Some((document, document.next?)));
        let due: Vec<(&Document, usize)> = due.filter(|_| turn.steps < MAX_ROUNDS).collect();
        if !due.is_empty() && self.offered("read_file") {
            let read = |document: &Document, line| json!({"description": ask.say("read"), "path": document.path, "start_line": line});
            let names: Vec<&str> = due.iter().map(|(document, _)| document.name()).collect();
            let calls = due.iter().map(|(document, line)| ("read_file", read(document, *line))).collect();
            return (ask.say_of("step", &ask.say_of("reading", &names.join(", "))), calls);
        }
        let written = turn.writes.iter().find(|(_, error)| error.is_none()).map(|(path, _)| path);
        if let Some(path) = written.filter(|_| !turn.presented && self.offered("present_files")) {
            return self.call("present", "present_files", json!({"filepaths": [path]}));
        }
        if documents.iter().all(|document| document.failure.is_some()) {
            return (report::unreadable(ask, &documents), Vec::new());
        }
        let found = Findings::new(ask, &documents);
        let last = match (written, turn.writes.as_slice()) {
            (Some(path), _) => ask.say_of("report-at", file_name(path)),
            _ if found.off_topic || (!attached && !ask.is("writes")) => String::new(),
            _ if !self.offered("write_file") => ask.say("no-tool").to_owned(),
            (_, [_, .., (_, Some(error))]) => ask.say_of("not-written", error),
            (_, failed) => {
                let path = report::path(ask, &paths);
                // The name may be taken, and the file there is not ours to replace.
                let path = if failed.is_empty() { path } else { path.replacen('.', "-2.", 1) };
                let content = report::write(&found, &paths);
                let args = json!({"description": ask.say("write"), "path": path, "content": content});
                return self.call("write", "write_file", args);
            }
        };
        (report::summary(&found, &last), Vec::new())
    }

    fn offered(&self, tool: &str) -> bool {
        self.chat.tool_choice != ToolChoice::None && self.chat.tools.iter().any(|spec| spec.name == tool)
    }

    /// Calls a tool, and from the writing on keeps the plan: what is read and not written down needs none.
    fn call(&self, why: &str, tool: &'static str, args: Value) -> Reply {
        let states = match why {
            "write" => Some(["completed", "in_progress", "pending"]),
            "present" => Some(["completed"; 3]),
            _ => None,
        };
        let plan = states.filter(|_| self.offered("write_todos")).map(|states| {
            let todos = ["read", "write", "present"].iter().zip(states);
            let todos = todos.map(|(step, state)| json!({"content": self.ask.say(step), "status": state}));
            ("write_todos", json!({ "todos": todos.collect::<Vec<_>>() }))
        });
        (self.ask.say_of("step", self.ask.say(why)), plan.into_iter().chain([(tool, args)]).collect())
    }
}
