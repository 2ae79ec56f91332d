//! A run on a terminal: a spinner per tool call, streamed Markdown, colours.

use super::markdown::{Blocks, render};
use super::{
    Show, answer, closing, custom_line, describe_call, exit_code, printable, printable_line, seconds, steered,
};
use crate::commands::{Ended, describe_questions, say};
use deerflow_core::{AgentEvent, Interrupt, JsonMap, ToolStatus, text};
use deerflow_runtime::RunHandle;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::{OwoColorize, Stream};
use std::collections::HashMap;
use std::time::Duration;

pub(super) struct Terminal {
    bars: MultiProgress,
    running: HashMap<String, (String, ProgressBar)>,
    thinking: Option<ProgressBar>,
    blocks: Blocks,
    /// Whether stdout is a terminal too, so that text may stream there.
    streams: bool,
    /// Message whose text was streamed last.
    streamed: Option<String>,
}

impl Terminal {
    pub(super) fn new(streams: bool) -> Self {
        Self {
            bars: MultiProgress::new(),
            running: HashMap::new(),
            thinking: None,
            blocks: Blocks::default(),
            streams,
            streamed: None,
        }
    }

    fn spinner(&self, text: String) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = self.bars.add(ProgressBar::new_spinner().with_style(style).with_message(text));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn line(&self, text: &str) {
        // Fails only when stderr is gone; there is nobody left to tell then.
        let _ = self.bars.println(text);
    }

    fn print(&self, text: &str) {
        if !text.trim().is_empty() {
            self.bars.suspend(|| say(&format!("{}\n", render(&printable(text)).trim_end_matches('\n'))));
        }
    }

    fn stop_thinking(&mut self) {
        if let Some(bar) = self.thinking.take() {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
    }
}

fn dim(text: &str) -> String {
    text.if_supports_color(Stream::Stderr, |t| t.dimmed()).to_string()
}

impl Show for Terminal {
    fn started(&mut self, handle: &RunHandle) {
        self.line(&dim(&format!("thread {} · model {}", handle.thread_id, handle.model)));
    }

    fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::ModelStarted { model, .. } => {
                self.stop_thinking();
                self.thinking = Some(self.spinner(format!("{model} is thinking")));
            }
            AgentEvent::ModelDelta { message_id, delta } if self.streams && !delta.text.is_empty() => {
                if let (Some(bar), true) = (&self.thinking, self.streamed.as_ref() != Some(message_id)) {
                    bar.set_message("writing");
                }
                self.streamed = Some(message_id.clone());
                if let Some(block) = self.blocks.push(&delta.text) {
                    self.print(&block);
                }
            }
            AgentEvent::ModelDiscarded { message_id } => {
                self.stop_thinking();
                let rest = self.blocks.take();
                if self.streamed.as_ref() == Some(message_id) {
                    self.print(&rest);
                    self.line(&dim("(this attempt broke off and does not count)"));
                }
                self.streamed = None;
            }
            AgentEvent::Message(message) if message.as_ai().is_some() => {
                self.stop_thinking();
                let rest = self.blocks.take();
                self.print(&rest);
            }
            AgentEvent::Message(message) => {
                if let Some(said) = steered(message) {
                    self.line(&format!("{} {said}", "»".if_supports_color(Stream::Stderr, |t| t.cyan())));
                }
            }
            AgentEvent::ToolStarted { call_id, name, args } => {
                let call = describe_call(name, args.as_object().unwrap_or(&JsonMap::new()));
                let bar = self.spinner(call.clone());
                self.running.insert(call_id.clone(), (call, bar));
            }
            AgentEvent::ToolFinished { call_id, name, status, elapsed_ms, summary } => {
                let call = match self.running.remove(call_id) {
                    Some((call, bar)) => {
                        bar.finish_and_clear();
                        self.bars.remove(&bar);
                        call
                    }
                    None => name.clone(),
                };
                let took = dim(&seconds(Duration::from_millis(*elapsed_ms)));
                match status {
                    ToolStatus::Success if exit_code(summary).is_some() => {
                        let code = exit_code(summary).unwrap_or_default();
                        let mark = "!".if_supports_color(Stream::Stderr, |t| t.yellow());
                        self.line(&format!("{mark} {call}  {took}  {}", dim(&format!("exit code {code}"))));
                    }
                    ToolStatus::Success => {
                        self.line(&format!("{} {call}  {took}", "✓".if_supports_color(Stream::Stderr, |t| t.green())))
                    }
                    ToolStatus::Error => {
                        let mark = "✗".if_supports_color(Stream::Stderr, |t| t.red());
                        self.line(&format!(
                            "{mark} {call}  {took}  {}",
                            dim(&text::ellipsis(&printable_line(summary), 100))
                        ));
                    }
                }
            }
            AgentEvent::Custom(value) => {
                if let Some(line) = custom_line(value) {
                    self.note(&line);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self) {
        self.stop_thinking();
        for (_, bar) in self.running.drain().map(|(_, running)| running) {
            bar.finish_and_clear();
        }
        let _ = self.bars.clear();
    }

    fn finished(&mut self, ended: &Ended) {
        let last = ended.state.messages.last();
        let shown = last.is_some_and(|m| m.id == self.streamed && m.as_ai().is_some());
        match answer(ended) {
            Some(text) if !self.streams => say(&printable(text.trim_end())),
            // A question, or words that a guard wrote, were not streamed.
            Some(_) if !ended.asks.is_empty() => self.question(&ended.asks),
            Some(text) if !shown => self.print(&text),
            _ => {}
        }
        for line in closing(ended) {
            self.line(&dim(&line));
        }
    }

    fn hint(&mut self, text: &str) {
        self.line(&dim(text));
    }

    fn draws(&mut self, draws: bool) {
        if !draws {
            let _ = self.bars.clear();
        }
        let target = if draws { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        self.bars.set_draw_target(target);
    }

    fn question(&mut self, questions: &[Interrupt]) {
        // Not as Markdown: what a person decides about is shown to the letter.
        self.bars.suspend(|| say(&format!("{}\n", printable(&describe_questions(questions)))));
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("{} {text}", "!".if_supports_color(Stream::Stderr, |t| t.yellow())));
    }
}
