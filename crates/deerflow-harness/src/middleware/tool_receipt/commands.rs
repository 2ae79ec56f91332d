//! Commands that a conversation records as run, and how they ended.

use super::receipt::{Receipt, TOOL_RECEIPT};
use deerflow_core::{Message, ToolStatus, text};
use serde_json::Value;
use std::sync::Arc;

const TOOL: &str = "bash";
/// The end of an output, where summaries stand.
const TAIL_CHARS: usize = 4000;

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRun {
    /// As the model wrote it.
    pub command: String,
    /// Status of the shell; `None` when it was ended from outside or never started.
    pub exit_code: Option<i32>,
    /// The last characters of its output.
    pub output_tail: String,
}

/// The commands of a conversation, oldest first. Only results with a receipt count: those the harness has seen itself.
#[must_use]
pub fn command_runs(messages: &[Arc<Message>]) -> Vec<CommandRun> {
    let mut runs = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for call in message.tool_calls().iter().filter(|call| call.name == TOOL) {
            let Some(command) = call.args.get("command").and_then(Value::as_str) else { continue };
            // Some providers number the calls of every turn from zero.
            let result = messages[index + 1..]
                .iter()
                .take_while(|m| m.as_ai().is_none())
                .find(|m| m.as_tool().is_some_and(|part| part.tool_call_id == call.id()));
            let Some(result) = result else { continue };
            let receipt = result.additional_kwargs.get(TOOL_RECEIPT).and_then(Receipt::read);
            if !receipt.is_some_and(|r| r.tool_name == TOOL && r.tool_call_id == call.id()) {
                continue;
            }
            let output = result.text();
            let ended_by_itself = result.as_tool().is_some_and(|part| part.status == ToolStatus::Success);
            runs.push(CommandRun {
                command: command.to_owned(),
                exit_code: if ended_by_itself { Some(exit_code(&output)) } else { None },
                output_tail: text::tail(&output, TAIL_CHARS).to_owned(),
            });
        }
    }
    runs
}

/// The tool says the code last, unless it is 0. A command can print such a line too; then at worst its success is not seen.
fn exit_code(output: &str) -> i32 {
    let said = output.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "));
    match said {
        None => 0,
        Some(code) => code.split_whitespace().next().and_then(|code| code.parse().ok()).unwrap_or(-1),
    }
}

/// Whether a recorded command is the one that was asked for: the same but for white space, at most with steps before it
/// that print nothing and must succeed (`cd /x && export A=1 && …`). Anything cleverer (a pipe, an `||`, a redirection)
/// could pass without the command having passed, and does not count.
pub(super) fn is_command(wanted: &str, recorded: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (wanted, recorded) = (squeeze(wanted), squeeze(recorded));
    if wanted.is_empty() {
        return false;
    }
    let Some(before) = recorded.strip_suffix(wanted.as_str()) else { return false };
    if before.is_empty() {
        return true;
    }
    let Some(steps) = before.strip_suffix("&& ").or_else(|| before.strip_suffix("&&")) else { return false };
    steps.split("&&").all(|step| is_silent(step.trim()))
}

fn is_silent(step: &str) -> bool {
    let plain = !step.contains(|c: char| "|;&<>`$()\\\"'#*?".contains(c));
    let mut words = step.split(' ');
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let is_assignment = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    plain
        && match first {
            "cd" => second.is_some() && words.next().is_none(),
            "export" => second.is_some_and(is_assignment) && words.all(is_assignment),
            _ => false,
        }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::scripted::{call, turn};
    use crate::middleware::tool_receipt::receipt::stamp;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn only_silent_steps_may_stand_in_front() {
        for recorded in [
            "make test",
            "  make   test ",
            "cd /mnt/x && make test",
            "cd a && export A=1 B=2 && make test",
            "cd a&&make test",
        ] {
            assert!(is_command("make test", recorded), "{recorded}");
        }
        for recorded in [
            "make test || true",
            "make test; true",
            "make test | tail",
            "false; make test",
            "echo '5 passed' && make test",
            "cd $(x) && make test",
            "cd && make test",
            "export -p && make test",
            "echo make test",
            "# make test",
            "make test &",
            "true && # && make test",
            "xmake test",
            "",
        ] {
            assert!(!is_command("make test", recorded), "{recorded}");
        }
        assert!(!is_command(" ", "make"));
    }

    fn history(result: Message, stamped: bool) -> Vec<Arc<Message>> {
        let bash = call("c", "bash", json!({"command": "make"}));
        let mut result = result;
        if stamped {
            stamp(&bash, &mut result);
        }
        vec![Arc::new(turn([bash])), Arc::new(result)]
    }

    #[test]
    fn the_code_is_what_the_tool_says_last() {
        for (output, code) in [
            ("fine", 0),
            ("(no output)", 0),
            ("bad\nExit Code: 2", 2),
            ("Exit Code: 0\nStd Error:\nx\nExit Code: 137 (killed by signal 9)", 137),
            ("x\nExit Code: 1\n[output truncated: 9 chars in all, saved to /y]", 1),
            ("Exit Code: what", -1),
        ] {
            let runs = command_runs(&history(Message::tool(output, "c", "bash"), true));
            assert_eq!(runs[0].exit_code, Some(code), "{output}");
        }
        let killed = Message::tool_error("Command timed out after 5 seconds", "c", "bash");
        assert_eq!(command_runs(&history(killed, true))[0].exit_code, None);
    }

    #[test]
    fn what_the_harness_has_not_seen_does_not_count() {
        assert_eq!(command_runs(&history(Message::tool("ok", "c", "bash"), false)), []);
        assert_eq!(command_runs(&history(Message::tool("ok", "other", "bash"), true)), []);
    }
}
