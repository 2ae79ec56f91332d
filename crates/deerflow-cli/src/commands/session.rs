//! A run, and the runs that follow from it: answers to what the agent asks, and what was typed too late for it.

use super::watch::{Ended, watch};
use super::{approve, clarify, deliver};
use crate::app::App;
use crate::console::Console;
use crate::failure::{Failure, INTERRUPTED, NEEDS_USER, RUN};
use crate::render::Renderer;
use deerflow_core::ports::InputQueue;
use deerflow_core::{Message, RunStatus, ThreadId};
use deerflow_harness::LeadOptions;
use deerflow_runtime::{RunRequest, Started};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;

/// What a thread goes on with.
enum Next {
    Say(Box<Message>),
    Answer(Value),
    /// What was queued and came too late.
    Returned,
}

pub(crate) struct Session<'a> {
    pub(crate) app: &'a App,
    pub(crate) thread_id: ThreadId,
    /// How follow-up runs are made.
    pub(crate) options: LeadOptions,
    pub(crate) output: Option<&'a Path>,
    pub(crate) renderer: Renderer,
    /// Somebody to ask, if there is one.
    pub(crate) console: Option<Console>,
}

impl Session<'_> {
    /// Shows a run to its end, and those that follow from it.
    pub(crate) async fn go(mut self, mut started: Started) -> Result<(), Failure> {
        let mut late = VecDeque::new();
        loop {
            let ended = self.follow(started, &mut late).await?;
            started = match self.next(&ended, &mut late).await? {
                Some(Next::Say(message)) => self.start(*message).await?,
                Some(Next::Answer(answer)) => {
                    self.app.runs.answer(&self.app.user, &self.thread_id, answer).await.map_err(Failure::run)?
                }
                Some(Next::Returned) => {
                    let (user, options) = (&self.app.user, &self.options);
                    self.app.runs.start_with_returned(user, &self.thread_id, options).await.map_err(Failure::run)?
                }
                None => {
                    for line in late {
                        self.renderer.note(&format!("came too late and was not sent: {line}"));
                    }
                    return self.conclude(&ended);
                }
            };
        }
    }

    async fn start(&self, message: Message) -> Result<Started, Failure> {
        let request = RunRequest {
            user_id: self.app.user.clone(),
            thread_id: self.thread_id.clone(),
            message,
            goal: None,
            options: self.options.clone(),
        };
        self.app.runs.start(request).await.map_err(Failure::run)
    }

    /// Shows a run until it ends, and hands over what it delivered.
    async fn follow(&mut self, started: Started, late: &mut VecDeque<String>) -> Result<Ended, Failure> {
        if let Some(dead) = &started.recovered {
            self.renderer.note(&format!(
                "an earlier run of this thread was cut off ({} is gone); its finished steps are kept",
                dead.worker.label
            ));
        }
        let mut ended = watch(self.app, started.handle, &mut self.renderer, self.console.as_mut(), late).await?;
        if ended.lost {
            self.renderer.finished(&ended);
            return Ok(ended);
        }
        ended.files = deliver::deliver(self.app, &ended, self.output, &mut self.renderer).await?;
        self.renderer.finished(&ended);
        let waiting = self.app.store.returned(&self.app.user, &ended.thread_id).await.map_err(Failure::run)?;
        ended.has_returned = !waiting.is_empty();
        for input in waiting {
            let text = input.content.text().into_owned();
            self.renderer.note(&format!("came too late for this run; the next one of this thread gets it: {text}"));
        }
        Ok(ended)
    }

    async fn next(&mut self, ended: &Ended, late: &mut VecDeque<String>) -> Result<Option<Next>, Failure> {
        let refused = ended.state.interrupts();
        if ended.outcome.status == RunStatus::Error && !refused.is_empty() && self.console.is_some() {
            // The answer was not accepted: the question is still open.
            let reason = ended.outcome.error.as_deref().unwrap_or("the answer was not accepted");
            self.renderer.note(reason);
            let answer = approve::ask(&refused, &ended.thread_id, &mut self.renderer, self.console.as_mut()).await;
            return Ok(answer.map(Next::Answer));
        }
        if !ended.asks.is_empty() {
            let answer = approve::ask(&ended.asks, &ended.thread_id, &mut self.renderer, self.console.as_mut()).await;
            return Ok(answer.map(Next::Answer));
        }
        if ended.outcome.status == RunStatus::Success && clarify::question(&ended.state).is_some() {
            let reply = clarify::answer(ended, &mut self.renderer, self.console.as_mut()).await;
            return Ok(reply.map(|reply| Next::Say(Box::new(reply))));
        }
        if ended.outcome.status != RunStatus::Success {
            return Ok(None);
        }
        if self.console.is_some() && ended.has_returned {
            return Ok(Some(Next::Returned));
        }
        Ok(late.pop_front().map(|line| Next::Say(Box::new(Message::human(line)))))
    }

    /// The exit code of a run that has ended.
    fn conclude(&mut self, ended: &Ended) -> Result<(), Failure> {
        let resume = match self.output {
            Some(output) => format!("deerflow resume {} --output {}", ended.thread_id, output.display()),
            None => format!("deerflow resume {}", ended.thread_id),
        };
        if ended.outcome.status == RunStatus::Success
            && let Some(limit) = ended.outcome.stop_reason.as_deref().and_then(limit_in_words)
        {
            self.renderer.note(&format!("{limit}; go on with: deerflow run \"continue\" --thread {}", ended.thread_id));
        }
        let reason = || ended.outcome.error.clone().unwrap_or_else(|| "the run failed".to_owned());
        match ended.outcome.status {
            _ if ended.lost => Err(Failure::run(reason())),
            RunStatus::Success if clarify::question(&ended.state).is_some() => Err(Failure::silent(NEEDS_USER)),
            RunStatus::Success => Ok(()),
            RunStatus::Interrupted if !ended.asks.is_empty() => Err(Failure::silent(NEEDS_USER)),
            RunStatus::Interrupted => {
                self.renderer.note(&format!("stopped; go on with: {resume}"));
                Err(Failure::silent(INTERRUPTED))
            }
            _ => Err(Failure {
                message: format!("{}; hint: when the cause is mended, go on with: {resume}", reason()),
                code: RUN,
            }),
        }
    }
}

/// What a person should know of the limit that ended a run.
pub(crate) fn limit_in_words(stop_reason: &str) -> Option<&'static str> {
    Some(match stop_reason {
        "turn_capped" => "ended at its limit of model turns (--max-turns), perhaps unfinished",
        "loop_capped" => "ended because the model repeated itself",
        "model_length_capped" => "the answer was cut off at the model's output limit",
        "safety_capped" => "ended because the provider blocked the reply",
        _ => return None,
    })
}
