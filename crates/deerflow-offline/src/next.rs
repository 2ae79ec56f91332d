//! The next reply: read, write, present, answer.

use crate::ask::{Ask, COMPARE};
use crate::conversation::Turn;
use crate::findings::Findings;
use crate::lexicon::has;
use crate::report;
use deerflow_core::{ChatRequest, ToolChoice};
use serde_json::{Value, json};

/// Replies of a turn that may ask for more of a file.
const MAX_ROUNDS: usize = 20;

/// What to say and which tools to call: each with its arguments, an object.
pub(crate) type Reply = (String, Vec<(&'static str, Value)>);

/// The next turn of this conversation.
pub(crate) fn next(chat: &ChatRequest) -> Reply {
    let turn = Turn::read(&chat.messages);
    let ask = Ask::new(&turn.request);
    let is = |cue| has(cue, &ask.text);
    let answer = |text: String| (text, Vec::new());
    let call = |why: &str, calls| (ask.say_of("step", ask.say(why)), calls);
    let offered = |tool: &str| chat.tool_choice != ToolChoice::None && chat.tools.iter().any(|spec| spec.name == tool);
    let attached = turn.fresh > 0;
    if is("cannot") || turn.documents.is_empty() || (!attached && is("small-talk")) {
        return answer(report::honest(&ask));
    }
    // Without new files those of before are meant, and one alone is compared with them.
    let earlier = !attached || (ask.task == COMPARE && turn.fresh < 2);
    let documents = &turn.documents[if earlier { 0 } else { turn.documents.len() - turn.fresh }..];
    let read = |(path, line): (&str, usize)| {
        ("read_file", json!({"description": ask.say("read"), "path": path, "start_line": line}))
    };
    let due = documents.iter().filter_map(|document| Some((document.path.as_str(), document.next?)));
    let due: Vec<_> = due.filter(|_| turn.steps < MAX_ROUNDS && offered("read_file")).map(read).collect();
    if !due.is_empty() {
        return call("read", due);
    }
    let found = Findings::new(&ask, documents);
    if found.documents.is_empty() {
        return answer(report::unreadable(&found));
    }
    let last = match (&turn.written, turn.refused.as_slice()) {
        (Some(path), _) if !turn.presented && offered("present_files") => {
            return call("present", vec![("present_files", json!({"filepaths": [path]}))]);
        }
        (Some(path), _) => ask.say_of("report-at", path.rsplit('/').next().unwrap_or(path)),
        _ if found.off_topic || (!attached && !is("writes")) => String::new(),
        _ if !offered("write_file") => ask.say("no-tool").to_owned(),
        (_, [_, .., error]) => ask.say_of("not-written", error),
        (_, refused) => {
            let path = report::path(&found);
            // The name may be taken, and the file there is not ours to replace.
            let path = if refused.is_empty() { path } else { path.replacen('.', "-2.", 1) };
            let args = json!({"description": ask.say("write"), "path": path, "content": report::write(&found)});
            return call("write", vec![("write_file", args)]);
        }
    };
    answer(report::summary(&found, &last))
}
