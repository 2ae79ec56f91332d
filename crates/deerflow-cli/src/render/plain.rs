//! Plain lines for logs and pipes: progress on stderr, the answer on stdout.

use super::{
    Show, answer, closing, custom_line, describe_call, exit_code, printable, printable_line, seconds, steered,
};
use crate::commands::{Ended, describe_questions, say};
use deerflow_core::{AgentEvent, Interrupt, ToolStatus, text};
use deerflow_runtime::RunHandle;
use std::collections::HashMap;
use std::time::Duration;

/// Remembers what runs, for the line when it ends.
#[derive(Default)]
pub(super) struct Plain {
    running: HashMap<String, String>,
}

#[expect(clippy::print_stderr, reason = "progress is what stderr is for")]
fn progress(line: &str) {
    eprintln!("{line}");
}

impl Show for Plain {
    fn started(&mut self, handle: &RunHandle) {
        progress(&format!("thread {} · model {}", handle.thread_id, handle.model));
    }

    fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Message(message) if message.as_ai().is_some() && !message.tool_calls().is_empty() => {
                let text = message.text();
                if !text.trim().is_empty() {
                    progress(printable(&text).trim());
                }
            }
            AgentEvent::Message(message) => {
                if let Some(said) = steered(message) {
                    progress(&format!("» {said}"));
                }
            }
            AgentEvent::ToolStarted { call_id, name, args } => {
                let call = describe_call(name, args.as_object().unwrap_or(&deerflow_core::JsonMap::new()));
                progress(&format!("→ {call}"));
                self.running.insert(call_id.clone(), call);
            }
            AgentEvent::ToolFinished { call_id, name, status, elapsed_ms, summary } => {
                let call = self.running.remove(call_id).unwrap_or_else(|| name.clone());
                let took = seconds(Duration::from_millis(*elapsed_ms));
                match status {
                    ToolStatus::Success => match exit_code(summary) {
                        Some(code) => progress(&format!("! {call}  {took}  exit code {code}")),
                        None => progress(&format!("✓ {call}  {took}")),
                    },
                    ToolStatus::Error => {
                        progress(&format!("✗ {call}  {took}  {}", text::ellipsis(&printable_line(summary), 120)))
                    }
                }
            }
            AgentEvent::Custom(value) => {
                if let Some(line) = custom_line(value) {
                    progress(&format!("! {line}"));
                }
            }
            _ => {}
        }
    }

    fn finished(&mut self, ended: &Ended) {
        if let Some(text) = answer(ended) {
            say(&format!("\n{}\n", printable(text.trim_end())));
        }
        for line in closing(ended) {
            say(&line);
        }
    }

    fn note(&mut self, text: &str) {
        progress(&format!("! {text}"));
    }

    fn question(&mut self, questions: &[Interrupt]) {
        say(&format!("\n{}\n", printable(&describe_questions(questions))));
    }
}
