//! How a run looks: on a terminal, in a log, as JSON lines, or not at all.

mod goal;
mod json;
mod markdown;
mod plain;
mod quiet;
mod terminal;

pub(crate) use goal::goal_in_words;

use crate::cli::ShowArgs;
use crate::commands::{Ended, describe_questions, question_message};
use crate::console::Console;
use crate::failure::INTERRUPTED;
use deerflow_core::{AgentEvent, Interrupt, JsonMap, Message, RunStatus, Usage, text};
use deerflow_harness::middleware::RUN_INPUT_ID;
use deerflow_runtime::RunHandle;
use serde_json::Value;
use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Events held back for a person who types; with more the screen goes on.
const HELD: usize = 20_000;

/// One way to show a run.
trait Show: Send {
    fn started(&mut self, _handle: &RunHandle) {}
    fn event(&mut self, event: &AgentEvent);
    /// Ten times a second.
    fn tick(&mut self) {}
    /// No more events will come.
    fn ended(&mut self) {}
    fn finished(&mut self, ended: &Ended);
    /// Something to know that is no event of the run.
    fn note(&mut self, text: &str);
    /// Something that helps a person at the terminal.
    fn hint(&mut self, _text: &str) {}
    /// Whether the screen may be drawn on.
    fn draws(&mut self, _draws: bool) {}
    /// What the agent asks, outside a run.
    fn question(&mut self, questions: &[Interrupt]);
}

/// Shows runs.
pub(crate) struct Renderer {
    show: Box<dyn Show>,
    /// Events that wait until a person has typed their line.
    held: Option<Vec<AgentEvent>>,
}

impl Renderer {
    pub(crate) fn new(args: ShowArgs) -> Self {
        let show: Box<dyn Show> = if args.json {
            Box::new(json::JsonLines::default())
        } else if args.quiet {
            Box::new(quiet::Quiet)
        } else if std::io::stderr().is_terminal() {
            Box::new(terminal::Terminal::new(std::io::stdout().is_terminal()))
        } else {
            Box::new(plain::Plain::default())
        };
        Self { show, held: None }
    }
    pub(crate) fn started(&mut self, handle: &RunHandle) {
        self.show.started(handle);
    }
    pub(crate) fn event(&mut self, event: AgentEvent) {
        match &mut self.held {
            Some(held) if held.len() < HELD => held.push(event),
            held => {
                if held.is_some() {
                    self.release();
                }
                self.show.event(&event);
            }
        }
    }
    pub(crate) fn tick(&mut self) {
        if self.held.is_none() {
            self.show.tick();
        }
    }
    pub(crate) fn ended(&mut self) {
        self.show.ended();
    }
    pub(crate) fn finished(&mut self, ended: &Ended) {
        self.show.finished(ended);
    }
    pub(crate) fn note(&mut self, text: &str) {
        self.show.note(&printable_line(text));
    }
    pub(crate) fn hint(&mut self, text: &str) {
        self.show.hint(text);
    }
    /// Shows what the agent asks.
    pub(crate) fn question(&mut self, questions: &[Interrupt]) {
        self.show.question(questions);
    }
    /// Leaves the terminal as it was found.
    pub(crate) fn abandon(&mut self) {
        self.show.ended();
    }
    /// Keeps the screen still, for a person who types after `prompt`.
    pub(crate) fn hold(&mut self, prompt: &str) {
        if self.held.is_none() {
            self.held = Some(Vec::new());
            self.show.draws(false);
        }
        show_prompt(prompt);
    }
    /// Shows what was held back, and goes on.
    pub(crate) fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.show.draws(true);
            for event in held {
                self.show.event(&event);
            }
        }
    }
    /// Reads a line from the user; an empty one when they give none (Ctrl-D). Ctrl-C ends the process.
    pub(crate) async fn ask(&mut self, console: &mut Console, prompt: &str) -> String {
        show_prompt(prompt);
        console.reopen();
        tokio::select! {
            line = console.line() => line.unwrap_or_default(),
            _ = tokio::signal::ctrl_c() => {
                self.abandon();
                std::process::exit(i32::from(INTERRUPTED))
            }
        }
    }
}

fn show_prompt(prompt: &str) {
    use std::io::Write as _;
    let mut err = std::io::stderr();
    // Fails only when stderr is gone; there is nobody left to ask then.
    let _ = write!(err, "{prompt}").and_then(|()| err.flush());
}

/// What a user said to the run while it worked, when this message is that.
fn steered(message: &Message) -> Option<String> {
    let said = message.is_human() && message.additional_kwargs.contains_key(RUN_INPUT_ID);
    said.then(|| printable_line(message.text().trim()))
}

/// A free-form event as a line for people, if it is one for them.
fn custom_line(value: &Value) -> Option<String> {
    goal::event(value).or_else(|| value.get("message").and_then(Value::as_str).map(printable_line))
}

/// Text from outside, fit for a terminal: control characters are shown, not obeyed. Line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match u32::from(c) {
        _ if harmless(c) => c,
        code @ 0..32 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    };
    Cow::Owned(text.replace("\r\n", "\n").chars().map(shown).collect())
}

/// The same for what must stay on one line.
pub(crate) fn printable_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// A call in a few words: what, on which file.
pub(crate) fn describe_call(name: &str, args: &JsonMap) -> String {
    let string = |key: &str| args.get(key).and_then(Value::as_str);
    let path = |p: &str| p.strip_prefix("/mnt/user-data/").unwrap_or(p).to_owned();
    let lines = match (args.get("start_line").and_then(Value::as_u64), args.get("end_line").and_then(Value::as_u64)) {
        (Some(from), Some(to)) => format!(" (lines {from}–{to})"),
        (Some(from), None) => format!(" (from line {from})"),
        (None, Some(to)) => format!(" (to line {to})"),
        (None, None) => String::new(),
    };
    let detail = if let Some(p) = string("path").or_else(|| string("image_path")) {
        match string("pattern") {
            Some(pattern) => format!("{pattern} in {}", path(p)),
            None => format!("{}{lines}", path(p)),
        }
    } else if let Some(files) = args.get("filepaths").and_then(Value::as_array) {
        files.iter().filter_map(Value::as_str).map(path).collect::<Vec<_>>().join(", ")
    } else if let Some(todos) = args.get("todos").and_then(Value::as_array) {
        let done = todos.iter().filter(|t| t.get("status").and_then(Value::as_str) == Some("completed")).count();
        format!("{done} of {} done", todos.len())
    } else {
        ["command", "query", "url", "question", "pattern"].iter().find_map(|k| string(k)).unwrap_or_default().to_owned()
    };
    let detail = printable_line(&detail.split_whitespace().collect::<Vec<_>>().join(" "));
    let name = printable_line(name);
    if detail.is_empty() { name } else { format!("{name} {}", text::ellipsis(&detail, 90)) }
}

/// The exit code that the summary of a command's result ends with, when it is not 0.
fn exit_code(summary: &str) -> Option<&str> {
    summary.rsplit_once("(exit code ")?.1.strip_suffix(')')
}

fn seconds(duration: Duration) -> String {
    let total = duration.as_secs_f64();
    if total < 60.0 {
        format!("{total:.1} s")
    } else {
        let whole = duration.as_secs();
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

pub(crate) fn tokens(usage: &Usage) -> String {
    if usage.is_zero() {
        return "no token count".to_owned();
    }
    let mut text = format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens);
    if usage.cache_read() > 0 {
        text.push_str(&format!(", {} from cache", usage.cache_read()));
    }
    if usage.reasoning() > 0 {
        text.push_str(&format!(", {} reasoning", usage.reasoning()));
    }
    text
}

/// The closing lines: files, time, tokens, cost, thread.
fn closing(ended: &Ended) -> Vec<String> {
    let mut lines: Vec<String> = ended.files.iter().map(|file| format!("file  {}", show_path(file))).collect();
    if ended.state.goal.is_some() || ended.had_goal {
        lines.extend(goal_in_words(&ended.state).into_iter().flatten());
    }
    let mut facts = vec![seconds(ended.elapsed), tokens(&ended.usage)];
    facts.extend(ended.spent.iter().filter_map(|spent| spent.cost.as_ref()).map(ToString::to_string));
    facts.push(ended.spent.iter().map(|spent| spent.model.as_str()).collect::<Vec<_>>().join(", "));
    facts.push(format!("thread {}", ended.thread_id));
    lines.push(facts.join(" · "));
    lines
}

fn show_path(path: &Path) -> String {
    printable_line(&path.display().to_string())
}

/// The last words of the agent, or its question.
fn answer(ended: &Ended) -> Option<String> {
    if ended.outcome.status == RunStatus::Error {
        // The reason is the error message's to tell.
        return None;
    }
    if !ended.asks.is_empty() {
        return Some(describe_questions(&ended.asks));
    }
    if let Some(question) = question_message(&ended.state) {
        return Some(question.text().into_owned());
    }
    let last = ended.state.messages.last()?;
    (last.as_ai().is_some() && last.tool_calls().is_empty()).then(|| last.text().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn describe(name: &str, args: Value) -> String {
        describe_call(name, args.as_object().unwrap())
    }

    #[test]
    fn a_call_says_what_and_on_which_file() {
        assert_eq!(
            describe("read_file", json!({"path": "/mnt/user-data/uploads/a b.pdf", "start_line": 1, "end_line": 9})),
            "read_file uploads/a b.pdf (lines 1–9)"
        );
        assert_eq!(describe("bash", json!({"command": "ls -la\n  | wc"})), "bash ls -la | wc");
        assert_eq!(
            describe("grep", json!({"pattern": "x+", "path": "/mnt/user-data/workspace"})),
            "grep x+ in workspace"
        );
        assert_eq!(
            describe("present_files", json!({"filepaths": ["/mnt/user-data/outputs/r.md"]})),
            "present_files outputs/r.md"
        );
        assert_eq!(describe("write_todos", json!({"todos": [{"status": "completed"}, {}]})), "write_todos 1 of 2 done");
        assert_eq!(describe("odd", json!({})), "odd");
    }

    #[test]
    fn a_terminal_is_told_nothing_by_text_from_outside() {
        assert_eq!(printable("a\u{1b}[2Jb\u{7}\u{9b}c\n\td"), "a␛[2Jb␇\u{fffd}c\n\td");
        assert!(matches!(printable("plain 谢谢"), Cow::Borrowed(_)));
        assert_eq!(describe("read_file", json!({"path": "a\u{1b}]0;x\u{7}"})), "read_file a␛]0;x␇");
        assert_eq!(show_path(Path::new("a\nfile  /etc/passwd")), "a file  /etc/passwd");
    }

    #[test]
    fn time_and_tokens_read_well() {
        assert_eq!(seconds(Duration::from_millis(840)), "0.8 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(tokens(&Usage::new(10, 5)), "10 tokens in, 5 out");
    }
}
