//! The next reply: plan, read, write, present, answer.

use crate::answer;
use crate::conversation::{Document, Turn, file_name};
use crate::findings::Findings;
use crate::report;
use crate::request::Ask;
use deerflow_core::{ChatRequest, JsonMap, ToolChoice};
use serde_json::{Value, json};

/// After so many replies in a turn only an answer follows.
const MAX_STEPS: usize = 32;

/// What to say and which tools to call.
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, JsonMap)>,
}

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
        let known = &turn.known;
        if self.chat.tools.is_empty() && turn.uploads.is_empty() && known.is_empty() {
            return text(answer::plain(ask));
        }
        if ask.cannot || (turn.uploads.is_empty() && (ask.small_talk || ask.text.is_empty())) {
            return text(answer::honest(ask, ""));
        }
        let uploads = if !turn.uploads.is_empty() {
            turn.uploads.clone()
        } else if !known.is_empty() && turn.listed.is_none() {
            known.clone()
        } else if let Some(listed) = &turn.listed {
            listed.clone()
        } else if ask.about_files || turn.earlier {
            return self.list();
        } else {
            return text(answer::honest(ask, ""));
        };
        if uploads.is_empty() {
            return text(answer::honest(ask, ask.say("I found no file to read.", "没有找到可读的文件。")));
        }
        let due = turn.pending(&uploads, !turn.uploads.is_empty());
        if !due.is_empty() && self.offered("read_file") {
            return self.read(&due);
        }
        let documents = turn.documents(&uploads);
        if documents.iter().all(|document| document.failure.is_some()) {
            return self.unreadable(&documents);
        }
        let done = turn.writes.iter().find(|(_, error)| error.is_none()).map(|(path, _)| path);
        if let Some(path) = done.filter(|_| turn.presented.is_none() && self.offered("present_files")) {
            return self.present(path);
        }
        let found = Findings::new(ask, &documents);
        if turn.uploads.is_empty() && !ask.wants_report {
            return self.finish(answer::summary(&found, None, &[]));
        }
        if let Some(path) = done {
            let unseen = ask.say("The report was written but could not be presented.", "报告已写好，但未能展示。");
            let notes = if turn.presented == Some(true) { Vec::new() } else { vec![unseen.to_owned()] };
            return self.finish(answer::summary(&found, Some(path), &notes));
        }
        let path = report::path(ask, &uploads);
        let path = match turn.writes.as_slice() {
            [] => path,
            // The name may be taken, and the file there is not ours to replace.
            [_] => path.rsplit_once('.').map_or(path.clone(), |(stem, ending)| format!("{stem}-2.{ending}")),
            [.., (_, error)] => {
                let why = ask.say("The report could not be written:", "报告无法写入：");
                return self.finish(answer::summary(
                    &found,
                    None,
                    &[format!("{why} {}", error.as_deref().unwrap_or(""))],
                ));
            }
        };
        if !self.offered("write_file") {
            let note =
                ask.say("No report: the tool `write_file` is not offered.", "未写报告：没有提供 `write_file` 工具。");
            return self.finish(answer::summary(&found, None, &[note.to_owned()]));
        }
        let why = ask.say("Write the report", "撰写报告");
        let content = report::write(&found, &uploads);
        self.call(why, "write_file", json!({"description": why, "path": path, "content": content}))
    }

    fn offered(&self, tool: &str) -> bool {
        let allowed = self.chat.tool_choice != ToolChoice::None && self.turn.steps < MAX_STEPS;
        allowed && self.chat.tools.iter().any(|spec| spec.name == tool)
    }

    fn list(&self) -> Reply {
        let why = self.ask.say("Look for files of earlier turns", "查找先前的文件");
        if self.offered("list_uploaded_files") {
            return self.call(why, "list_uploaded_files", json!({}));
        }
        text(answer::honest(&self.ask, self.ask.say("No file is attached.", "没有附件。")))
    }

    fn call(&self, why: &str, tool: &str, args: Value) -> Reply {
        let text = format!("{}{why}.", self.ask.say("Offline model: ", "离线模型："));
        Reply { text, calls: vec![(tool.to_owned(), object(args))] }
    }

    fn read(&self, due: &[(String, usize)]) -> Reply {
        let ask = &self.ask;
        let mut calls = Vec::new();
        if self.turn.todo_calls == 0 && self.offered("write_todos") {
            calls.push(("write_todos".to_owned(), self.todos(&["in_progress", "pending", "pending"])));
        }
        for (path, line) in due {
            let why = ask.say("Read the attached file", "阅读附件");
            let mut args = object(json!({"description": why, "path": path}));
            if *line > 1 {
                args.insert("start_line".to_owned(), json!(line));
            }
            calls.push(("read_file".to_owned(), args));
        }
        let names: Vec<&str> = due.iter().map(|(path, _)| file_name(path)).collect();
        let text = format!("{} {}.", ask.say("Offline model: reading", "离线模型：正在阅读"), names.join(", "));
        Reply { text, calls }
    }

    fn todos(&self, states: &[&str]) -> JsonMap {
        let ask = &self.ask;
        let steps = [
            ask.say("Read the attached files", "阅读附件"),
            ask.say("Pick the key sentences and figures", "挑选关键句子和数据"),
            ask.say("Write the report", "撰写报告"),
        ];
        let todos: Vec<Value> =
            steps.iter().zip(states).map(|(step, status)| json!({"content": step, "status": status})).collect();
        object(json!({ "todos": todos }))
    }

    /// The answer, after what is left of the plan is closed: only steps that were done stay in it.
    fn finish(&self, answer: String) -> Reply {
        if self.turn.todo_calls == 1 && self.offered("write_todos") {
            let written = self.turn.writes.iter().any(|(_, error)| error.is_none());
            let done = if written { 3 } else { 1 };
            let plan = self.todos(&["completed"; 3][..done]);
            let text = self.ask.say("Offline model: closing the plan.", "离线模型：更新计划。").to_owned();
            return Reply { text, calls: vec![("write_todos".to_owned(), plan)] };
        }
        text(answer)
    }

    fn unreadable(&self, documents: &[Document]) -> Reply {
        let why = |document: &Document| {
            let why = document.failure.clone().unwrap_or_default();
            if self.offered("read_file") { why } else { format!("{why}; the tool `read_file` is not offered") }
        };
        let failures: Vec<_> = documents.iter().map(|document| (document.name.clone(), why(document))).collect();
        self.finish(answer::unreadable(&self.ask, &failures))
    }

    fn present(&self, path: &str) -> Reply {
        let why = self.ask.say("Present the report", "展示报告");
        let mut reply = self.call(why, "present_files", json!({"filepaths": [path]}));
        if self.turn.todo_calls == 1 && self.offered("write_todos") {
            reply.calls.push(("write_todos".to_owned(), self.todos(&["completed"; 3])));
        }
        reply
    }
}

fn text(text: String) -> Reply {
    Reply { text, calls: Vec::new() }
}

fn object(value: Value) -> JsonMap {
    if let Value::Object(map) = value { map } else { JsonMap::new() }
}
