//! Follows a run to its end, passes on what the user types meanwhile, and stops it when the user says so.

use super::cost;
use crate::app::App;
use crate::console::Console;
use crate::failure::{Failure, INTERRUPTED};
use crate::render::Renderer;
use deerflow_core::ports::RunOutcome;
use deerflow_core::{AgentEvent, Interrupt, Message, RunId, RunStatus, ThreadId, ThreadState, Usage};
use deerflow_harness::{Spending, Tally};
use deerflow_models::Cost;
use deerflow_runtime::{RunHandle, RuntimeError};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ticks, ten a second, between two looks at whether the data folder is still there.
const LOOK_EVERY: u32 = 10;

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
    pub(crate) model: String,
    pub(crate) outcome: RunOutcome,
    pub(crate) state: Arc<ThreadState>,
    pub(crate) usage: Usage,
    /// The same by model, with prices.
    pub(crate) spent: Vec<Spending>,
    /// What all of it costs, if every model that was used has a price, in one currency.
    pub(crate) cost: Option<Cost>,
    pub(crate) elapsed: Duration,
    /// Delivered files, where the user finds them.
    pub(crate) files: Vec<PathBuf>,
    /// Questions that it stopped with.
    pub(crate) asks: Vec<Interrupt>,
    /// Whether it worked towards a goal.
    pub(crate) had_goal: bool,
    /// Whether something was said to it that it did not hear.
    pub(crate) has_returned: bool,
    /// Whether the data folder went away under it.
    pub(crate) lost: bool,
}

/// Passes lines on to a run.
struct Steering<'a> {
    app: &'a App,
    thread_id: ThreadId,
    /// What the run was over for.
    late: &'a mut VecDeque<String>,
    /// Whether the screen is held still for a line that is being typed.
    composing: bool,
}

impl Steering<'_> {
    async fn typed(&mut self, line: &str, renderer: &mut Renderer) {
        let text = line.trim();
        if text.is_empty() {
            self.composing = !self.composing;
            if self.composing {
                renderer.hold("say > ")
            } else {
                renderer.release()
            }
            return;
        }
        self.composing = false;
        renderer.release();
        self.say(text, renderer).await;
    }

    async fn say(&mut self, text: &str, renderer: &mut Renderer) {
        let id = super::steer::input_id();
        match self.app.runs.steer(&self.app.user, &self.thread_id, id, Message::human(text)).await {
            Ok(_) => renderer.note(&format!("queued for its next turn: {text}")),
            Err(RuntimeError::NotRunning(_)) => self.late.push_back(text.to_owned()),
            Err(error) => renderer.note(&format!("not sent: {error}: {text}")),
        }
    }
}

pub(crate) async fn watch(
    app: &App,
    mut handle: RunHandle,
    renderer: &mut Renderer,
    mut console: Option<&mut Console>,
    late: &mut VecDeque<String>,
) -> Result<Ended, Failure> {
    let started = Instant::now();
    renderer.started(&handle);
    let earlier: Vec<String> = late.drain(..).collect();
    let mut steering = Steering { app, thread_id: handle.thread_id.clone(), late, composing: false };
    if let Some(console) = console.as_deref_mut() {
        console.reopen();
        renderer.hint(
            "type a line to tell it something while it works (Enter first keeps the screen still); Ctrl-C stops it",
        );
    }
    for line in earlier {
        steering.say(&line, renderer).await;
    }
    let mut usage = Usage::default();
    let mut tally = Tally::default();
    let mut asks = Vec::new();
    let mut had_goal = false;
    let mut lost = false;
    let mut stopping = false;
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(Failure::run)?;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let mut ticks = 0u32;
    loop {
        tokio::select! {
            event = handle.events.recv() => {
                let Some(event) = event else { break };
                match &event {
                    AgentEvent::Committed { usage: so_far, .. } => usage = so_far.clone(),
                    AgentEvent::Message(message) => tally.note(message),
                    AgentEvent::Interrupted(questions) => asks.clone_from(questions),
                    AgentEvent::Custom(value) if value.get("type").is_some_and(|t| t == "goal") => had_goal = true,
                    _ => {}
                }
                renderer.event(event);
            }
            _ = tick.tick() => {
                renderer.tick();
                ticks = ticks.wrapping_add(1);
                if !lost && ticks.is_multiple_of(LOOK_EVERY) && app.is_gone() {
                    lost = true;
                    handle.cancel.cancel();
                }
            }
            line = next_line(&mut console) => match line {
                Some(line) => steering.typed(&line, renderer).await,
                None => renderer.release(),
            },
            _ = tokio::signal::ctrl_c() => {
                renderer.release();
                if stopping {
                    renderer.note("not waiting for the clean-up");
                    renderer.abandon();
                    std::process::exit(i32::from(INTERRUPTED));
                }
                stopping = true;
                renderer.note("stopping… (Ctrl-C again to quit at once)");
                handle.cancel.cancel();
            }
            _ = terminate.recv() => {
                stopping = true;
                handle.cancel.cancel();
            }
        }
    }
    renderer.release();
    renderer.ended();
    let (thread_id, run_id, model) = (handle.thread_id.clone(), handle.run_id.clone(), handle.model.clone());
    let finished = handle.finished().await;
    lost |= app.is_gone();
    // What was typed before anything is asked is no answer to it.
    while let Some(line) = console.as_deref_mut().and_then(Console::typed) {
        if !line.trim().is_empty() {
            steering.late.push_back(line.trim().to_owned());
        }
    }
    let (mut outcome, state) = match finished {
        Ok(finished) => (finished.outcome, finished.state),
        Err(error) if !lost => return Err(Failure::run(error)),
        Err(_) => (
            RunOutcome { status: RunStatus::Error, error: None, stop_reason: None, usage: usage.clone() },
            Arc::default(),
        ),
    };
    if lost {
        let home = app.config.home().display();
        outcome.status = RunStatus::Error;
        outcome.error =
            Some(format!("the data folder {home} was removed while the run worked; nothing of the run is kept"));
    }
    if !outcome.usage.is_zero() {
        usage = outcome.usage.clone();
    }
    let spent = tally.spending(&model, &usage, app.harness.models());
    let cost = cost::total(&spent);
    Ok(Ended {
        thread_id,
        run_id,
        model,
        outcome,
        state,
        usage,
        spent,
        cost,
        elapsed: started.elapsed(),
        files: Vec::new(),
        asks,
        had_goal,
        has_returned: false,
        lost,
    })
}

/// The next line that is typed; never, without a console.
async fn next_line(console: &mut Option<&mut Console>) -> Option<String> {
    match console {
        Some(console) => console.line().await,
        None => std::future::pending().await,
    }
}
