//! A tool batch: the calls of one assistant message, all at the same time.
//!
//! A call that changes something is announced in the log before it acts, and its result is stored as soon as it is there.
//! After a crash the log therefore tells, call by call, what may be done: see [`call_tool`].

use crate::middleware::{EffectScope, ToolNext, ToolOutcome, ToolRequest};
use crate::run::{Run, Step, assign_ids};
use deerflow_core::ports::{EffectRecord, StepCommit, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{
    AgentError, AgentEvent, Effects, InvalidToolCall, Message, StateUpdate, ToolCall, ToolContext, ToolError,
    ToolOutput, ToolStatus, Verdict, text,
};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long cancelled tools may take to clean up before they are dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// A call of the batch, with its position in the message.
struct Pending {
    index: usize,
    call: ToolCall,
    /// Why it cannot run, for a call that did not parse.
    invalid: Option<String>,
}

impl Run<'_> {
    pub(crate) async fn tool_batch(&mut self) -> Result<(), AgentError> {
        let base = self.commit_base(StepKind::Effects, Next::Tools);
        let pending = self.pending_calls();
        let total = pending.len();
        let mut done: Vec<(usize, StateUpdate, bool)> = Vec::with_capacity(total);
        {
            let working = AtomicUsize::new(total);
            let mut running: FuturesUnordered<_> =
                pending.into_iter().map(|p| self.keep_call(&base, p, &working)).collect();
            let grace = async {
                self.ctx.cancel.cancelled().await;
                tokio::time::sleep(CANCEL_GRACE).await;
            };
            let mut grace = std::pin::pin!(grace);
            loop {
                let finished = tokio::select! {
                    finished = running.next() => finished,
                    () = &mut grace => return Err(AgentError::Cancelled),
                };
                let Some(finished) = finished else { break };
                match finished {
                    // The siblings were told to stop as well: let them clean up.
                    Err(error) if error.is_cancelled() => {}
                    finished => done.push(finished?),
                }
            }
        }
        self.ctx.check_cancelled()?;
        done.sort_by_key(|(index, ..)| *index);
        let end_run = done.iter().any(|(_, _, end)| *end);
        let mut step = Step::default();
        Arc::make_mut(&mut self.state).apply_concurrent(done.iter().map(|(_, update, _)| update))?;
        step.updates.extend(
            done.into_iter().map(|(_, update, _)| deerflow_core::NodeUpdate { node: "tools".to_owned(), update }),
        );
        let next = if end_run { Next::End } else { Next::Model };
        self.commit(StepKind::Tools, next, step, None).await
    }

    /// Calls of the last assistant message that have no result yet.
    fn pending_calls(&self) -> Vec<Pending> {
        let Some(message) = self.state.last_ai() else { return Vec::new() };
        let Some(part) = message.as_ai() else { return Vec::new() };
        let results = self.state.answered_since_last_ai();
        let answered: HashSet<&str> =
            results.iter().filter_map(|m| m.as_tool()).map(|t| t.tool_call_id.as_str()).collect();
        let valid = part.tool_calls.iter().map(|call| (call.clone(), None));
        let invalid = part.invalid_tool_calls.iter().map(|call| (stand_in(call), Some(explain_invalid(call))));
        valid
            .chain(invalid)
            .enumerate()
            .map(|(index, (call, invalid))| Pending { index, call, invalid })
            .filter(|pending| !answered.contains(pending.call.id()))
            .collect()
    }

    /// Runs a call, and stores its result while siblings are still at work, whatever happens to them then. `working` counts
    /// those that have no result.
    ///
    /// The write is part of the call's own future: were it made by the loop above, nobody would poll the siblings
    /// meanwhile, and one that holds what the write waits for would never let go of it.
    async fn keep_call(
        &self,
        base: &StepCommit,
        pending: Pending,
        working: &AtomicUsize,
    ) -> Result<(usize, StateUpdate, bool), AgentError> {
        let (index, mut update, end_run) = self.run_call(base, pending).await?;
        assign_ids(&mut update);
        if working.fetch_sub(1, Ordering::Relaxed) > 1 {
            let effect = EffectRecord::Finished { step: base.step, index, update: Box::new(update.clone()), end_run };
            self.agent.log.commit(StepCommit { effects: vec![effect], ..base.clone() }).await?;
        }
        Ok((index, update, end_run))
    }

    async fn run_call(&self, base: &StepCommit, pending: Pending) -> Result<(usize, StateUpdate, bool), AgentError> {
        let Pending { index, call, invalid } = pending;
        let open = self.open_effects.iter().find(|effect| effect.index == index);
        if let Some((update, end_run)) = open.and_then(|effect| effect.finished.clone()) {
            return Ok((index, update, end_run));
        }
        let started = Instant::now();
        let events = &self.ctx.events;
        let (call_id, name) = (call.id().to_owned(), call.name.clone());
        let args = Value::Object(call.args.clone());
        events.send(AgentEvent::ToolStarted { call_id: call_id.clone(), name: name.clone(), args }).await;
        let outcome = match invalid {
            Some(reason) => ToolOutcome::error(&call, reason),
            None => {
                let request = ToolRequest {
                    tool: self.agent.by_name.get(&call.name).cloned(),
                    context: self.tool_context(&call, index),
                    call,
                };
                let next = ToolNext {
                    rest: &self.agent.chain,
                    ctx: self.ctx,
                    effects: EffectScope { log: self.agent.log.as_ref(), base, open },
                };
                next.run(request).await?
            }
        };
        let event = AgentEvent::ToolFinished {
            call_id,
            name,
            status: outcome.message.as_tool().map(|t| t.status).unwrap_or_default(),
            elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            summary: summarise(&outcome.message.text()),
        };
        events.send(event).await;
        let mut update = outcome.update;
        update.messages.insert(0, Arc::new(outcome.message));
        Ok((index, update, outcome.end_run))
    }

    fn tool_context(&self, call: &ToolCall, index: usize) -> ToolContext {
        ToolContext {
            user_id: self.ctx.user_id.clone(),
            thread_id: self.ctx.thread_id.clone(),
            run_id: self.ctx.run_id.clone(),
            call_id: call.id().to_owned(),
            call_index: index,
            namespace: self.ctx.namespace.clone(),
            cancel: self.ctx.cancel.child_token(),
            state: self.state.clone(),
            events: self.ctx.events.clone(),
        }
    }

    /// Answers for a batch that was stopped and will not go on: what finished counts, the rest is said to be interrupted.
    pub(crate) fn settle_interrupted_batch(&self) -> StateUpdate {
        let mut settled = StateUpdate::none();
        for pending in self.pending_calls() {
            let open = self.open_effects.iter().find(|effect| effect.index == pending.index);
            match open.and_then(|effect| effect.finished.as_ref()) {
                Some((update, _)) => settled.messages.extend(update.messages.iter().cloned()),
                None => {
                    let text =
                        if open.is_some() { unknown_outcome(&pending.call.name) } else { INTERRUPTED.to_owned() };
                    settled.messages.push(Arc::new(ToolOutcome::error(&pending.call, text).message));
                }
            }
        }
        settled
    }
}

const INTERRUPTED: &str = "Error: the call was interrupted before it began; nothing was done.";

fn unknown_outcome(tool: &str) -> String {
    format!(
        "Error: outcome unknown. The call to `{tool}` was interrupted while it ran and was not run again. It may have taken \
         effect, in whole or in part: inspect the result before you retry."
    )
}

/// The end of the chain: runs the tool, or says why it does not.
///
/// With an effect left open by a crash, [`Tool::effects`](deerflow_core::Tool::effects) decides: what is harmless runs
/// again, what can be verified is verified, and the rest is reported as unknown. At most once, and said.
pub(crate) async fn call_tool(scope: EffectScope<'_>, request: ToolRequest) -> Result<ToolOutcome, AgentError> {
    let ToolRequest { call, tool, context } = request;
    let Some(tool) = tool else {
        let text = format!("Error: there is no tool named `{}`. Use one of the tools that were offered.", call.name);
        return Ok(ToolOutcome::error(&call, text));
    };
    let effects = tool.effects();
    if let Some(open) = scope.open {
        match effects {
            Effects::Mutating => return Ok(ToolOutcome::error(&call, unknown_outcome(&call.name))),
            Effects::Verifiable => {
                let fingerprint = open.fingerprint.clone().unwrap_or(Value::Null);
                match tool.verify(&context, &call.args, &fingerprint).await {
                    Verdict::Done(output) => return Ok(into_outcome(&call, output)),
                    Verdict::Unknown => return Ok(ToolOutcome::error(&call, unknown_outcome(&call.name))),
                    Verdict::NotDone => {}
                }
            }
            Effects::Pure | Effects::ReadOnly | Effects::Idempotent | Effects::Resumable => {}
        }
    }
    if effects.needs_record() && scope.open.is_none() {
        let fingerprint = tool.fingerprint(&context, &call.args).await;
        let record = EffectRecord::Started {
            step: scope.base.step,
            index: context.call_index,
            call_id: call.id().to_owned(),
            tool: call.name.clone(),
            fingerprint,
        };
        scope.log.commit(StepCommit { effects: vec![record], ..scope.base.clone() }).await?;
    }
    match AssertUnwindSafe(tool.call(&context, call.args.clone())).catch_unwind().await {
        Ok(Ok(output)) => Ok(into_outcome(&call, output)),
        Ok(Err(ToolError::Respond(text))) => {
            let text = if text.starts_with("Error:") { text } else { format!("Error: {text}") };
            Ok(ToolOutcome::error(&call, text))
        }
        Ok(Err(ToolError::Fatal(reason))) => Err(AgentError::Tool { tool: call.name, reason }),
        Ok(Err(ToolError::Cancelled)) => Err(AgentError::Cancelled),
        Err(panic) => {
            let detail = panic_text(panic.as_ref());
            tracing::error!(tool = %call.name, detail, "tool panicked");
            let text = format!(
                "Error: Tool '{}' failed with a panic: {}. Continue with what you have, or choose another tool.",
                call.name,
                text::ellipsis(detail, 500)
            );
            Ok(ToolOutcome::error(&call, text))
        }
    }
}

/// The first line of a result, with the exit code of a command that failed.
fn summarise(result: &str) -> String {
    let mut lines = result.lines().filter(|line| !line.trim().is_empty());
    let first = text::ellipsis(lines.next().unwrap_or_default(), 200);
    match result.trim_end().lines().next_back().and_then(|last| last.strip_prefix("Exit Code: ")) {
        Some(code) => format!("{first} (exit code {})", text::head(code, 10)),
        None => first,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown reason")
}

fn into_outcome(call: &ToolCall, output: ToolOutput) -> ToolOutcome {
    let mut message = Message::tool(output.content, call.id(), call.name.clone());
    if let Some(part) = message.as_tool_mut() {
        part.artifact = output.artifact;
        part.status = output.status;
    }
    if output.status == ToolStatus::Success && message.content.is_blank() && !message.content.has_non_text() {
        // Some providers refuse an empty result.
        message.content = "(no output)".into();
    }
    message.additional_kwargs = output.additional_kwargs;
    message.id = output.message_id;
    ToolOutcome { message, update: output.update, end_run: output.end_run }
}

fn stand_in(call: &InvalidToolCall) -> ToolCall {
    ToolCall::new(
        call.id.clone().unwrap_or_default(),
        call.name.clone().unwrap_or_default(),
        deerflow_core::JsonMap::new(),
    )
}

fn explain_invalid(call: &InvalidToolCall) -> String {
    let reason = call.error.as_deref().unwrap_or("the arguments are not a JSON object");
    let reason = text::ellipsis(reason, 500);
    match call.name.as_deref().filter(|name| !name.is_empty()) {
        None => format!("Error: the call was not run: {reason}. Name one of the tools that were offered."),
        Some("write_file") => format!(
            "Error: write_file was not run: {reason}. The content was probably too long for one call. Do not send it again in one \
             piece: write the first part with write_file and add the rest in calls with append=true, or answer in text."
        ),
        Some(name) => {
            format!("Error: {name} was not run: {reason}. Call it again with one JSON object as its arguments.")
        }
    }
}
