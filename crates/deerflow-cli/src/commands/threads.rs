//! `deerflow threads`.

mod compact;
mod fork;
mod history;
mod undo;
mod upkeep;

use super::cost::{self, Spent};
use super::{describe_questions, question_message, say, say_json};
use crate::app;
use crate::cli::ThreadsCommand;
use crate::failure::Failure;
use crate::render::{goal_in_words, printable, printable_line, tokens};
use deerflow_core::message::kwargs;
use deerflow_core::ports::{Fence, RunFilter, RunOutcome, RunRepo, StepLog, ThreadRepo, ThreadRow};
use deerflow_core::{Lineage, Message, RunStatus, StoreError, ThreadId, ToolStatus, UserId, text};
use deerflow_harness::ModelCatalogue;
use deerflow_runtime::WorkerLock;
use deerflow_sandbox::ThreadPaths;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

pub(crate) async fn threads(config: Option<PathBuf>, command: ThreadsCommand) -> Result<(), Failure> {
    if let ThreadsCommand::Compact { thread, json } = &command {
        // The only one that needs a model.
        return compact::compact(config, &parse(thread)?, *json).await;
    }
    let config = app::load_config(config)?;
    let store = app::open_store(&config).await?;
    let user = UserId::local();
    let result = match command {
        ThreadsCommand::List { limit, json } => list(&*store, &user, config.home(), limit, json).await,
        ThreadsCommand::Show { thread, json } => {
            let thread_id = parse(&thread)?;
            let paths = ThreadPaths::new(config.home(), user.as_str(), thread_id.as_str()).map_err(Failure::usage)?;
            show(&*store, &user, &deerflow::assembly::models(&config), &thread_id, &paths, json).await
        }
        ThreadsCommand::History { thread, limit, json } => {
            history::history(&*store, &user, &parse(&thread)?, limit, json).await
        }
        ThreadsCommand::Fork { thread, at, name, json } => {
            let new = name.as_deref().map_or_else(|| Ok(ThreadId::random()), parse)?;
            fork::fork(&*store, &user, config.home(), &parse(&thread)?, at, new, json).await
        }
        // Answered above.
        ThreadsCommand::Compact { .. } => Ok(()),
        ThreadsCommand::Undo { thread } => undo::undo(&*store, &user, config.home(), &parse(&thread)?).await,
        ThreadsCommand::Migrate { thread, to } => {
            upkeep::migrate(&store, &user, config.home(), &parse(&thread)?, &to).await
        }
        ThreadsCommand::Prune { older_than, dry_run, yes } => {
            upkeep::prune(&store, &user, config.home(), older_than, dry_run, yes).await
        }
        ThreadsCommand::Delete { thread, yes } => {
            let thread_id = parse(&thread)?;
            let paths = ThreadPaths::new(config.home(), user.as_str(), thread_id.as_str()).map_err(Failure::usage)?;
            delete(&*store, &user, config.home(), &thread_id, &paths, yes).await
        }
    };
    store.close().await;
    result
}

pub(crate) fn parse(id: &str) -> Result<ThreadId, Failure> {
    ThreadId::parse(id).map_err(Failure::usage)
}

pub(crate) fn missing(id: &ThreadId) -> Failure {
    Failure::usage(format!("there is no thread {id}; hint: `deerflow threads list` shows yours"))
}

fn rfc3339(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros).map(|t| t.to_string()).unwrap_or_default()
}

fn date(micros: i64) -> String {
    let zone = jiff::tz::TimeZone::system();
    jiff::Timestamp::from_microsecond(micros)
        .map(|t| t.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

/// A thread's status for people: what its row cannot know is whether a process still works on it, and whether it asks.
async fn status(
    store: &(impl StepLog + RunRepo),
    user: &UserId,
    home: &Path,
    row: &ThreadRow,
) -> Result<String, Failure> {
    if row.status == "busy" {
        let filter = RunFilter { thread_id: Some(row.thread_id.clone()), limit: 1, ..RunFilter::default() };
        let last = store.runs(user, filter).await.map_err(Failure::run)?.into_iter().next();
        let dead = last.is_some_and(|run| !WorkerLock::is_held(home, &run.worker));
        return Ok(if dead { "cut off".to_owned() } else { row.status.clone() });
    }
    let head = store.load(&Lineage::root(row.thread_id.clone()), None).await.map_err(Failure::run)?;
    let asks = head.is_some_and(|h| question_message(&h.state).is_some() || !h.state.interrupts().is_empty());
    Ok(if asks { "asks you".to_owned() } else { row.status.clone() })
}

async fn list(
    store: &(impl ThreadRepo + StepLog + RunRepo),
    user: &UserId,
    home: &Path,
    limit: u32,
    json: bool,
) -> Result<(), Failure> {
    let rows = store.threads(user, limit, 0).await.map_err(Failure::run)?;
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({
                    "thread_id": r.thread_id, "title": r.title, "status": r.status,
                    "created_at": rfc3339(r.created_at), "updated_at": rfc3339(r.updated_at),
                })
            })
            .collect();
        return say_json(&rows);
    }
    if rows.is_empty() {
        say("no threads yet");
    }
    let width = rows.iter().map(|r| r.thread_id.as_str().len()).max().unwrap_or(0);
    for row in rows {
        let status = status(store, user, home, &row).await?;
        let title = text::ellipsis(&printable_line(row.title.as_deref().unwrap_or("(no title)")), 60);
        say(&format!("{:width$}  {}  {status:11}  {title}", row.thread_id.as_str(), date(row.updated_at)));
    }
    Ok(())
}

async fn show(
    store: &(impl ThreadRepo + StepLog + RunRepo),
    user: &UserId,
    models: &ModelCatalogue,
    id: &ThreadId,
    paths: &ThreadPaths,
    json: bool,
) -> Result<(), Failure> {
    let thread = store.thread(user, id).await.map_err(Failure::run)?.ok_or_else(|| missing(id))?;
    let head = store.load(&Lineage::root(id.clone()), None).await.map_err(Failure::run)?;
    let state = head.map(|h| h.state).unwrap_or_default();
    let all = RunFilter { thread_id: Some(id.clone()), limit: u32::MAX, ..RunFilter::default() };
    let runs = store.runs(user, all).await.map_err(Failure::run)?;
    let spent = Spent::of(models, &runs);
    if json {
        let costs: Vec<_> = spent.costs.iter().map(cost::as_json).collect();
        return say_json(&json!({
            "thread_id": thread.thread_id, "title": thread.title, "status": thread.status,
            "created_at": rfc3339(thread.created_at), "updated_at": rfc3339(thread.updated_at), "runs": runs.len(),
            "usage": spent.usage, "costs": costs, "unpriced_runs": spent.unpriced, "values": state,
        }));
    }
    say(&format!(
        "{}  {}  {}",
        thread.thread_id,
        printable_line(thread.title.as_deref().unwrap_or("(no title)")),
        thread.status
    ));
    for message in state.messages.iter().filter(|m| !m.flag(kwargs::HIDE_FROM_UI)) {
        show_message(message);
    }
    for path in state.artifacts.iter().flatten() {
        let relative = path.strip_prefix("/mnt/user-data/outputs/").unwrap_or(path);
        say(&format!("\nfile  {}", printable_line(&paths.outputs().join(relative).display().to_string())));
    }
    if !spent.usage.is_zero() {
        let facts: Vec<String> = [tokens(&spent.usage)].into_iter().chain(spent.in_words()).collect();
        say(&format!("\n{}", facts.join(" · ")));
    }
    if let Some(question) = question_message(&state) {
        say(&format!("\n{}\n\nAnswer with: deerflow run \"your answer\" --thread {id}", printable(&question.text())));
    }
    for line in goal_in_words(&state).into_iter().flatten() {
        say(&format!("\n{line}").replace("\n  ", "  "));
    }
    let questions = state.interrupts();
    if !questions.is_empty() {
        say(&format!("\n{}\n\nAnswer with: deerflow resume {id}", printable(&describe_questions(&questions))));
        return Ok(());
    }
    if let Some(run) = runs.first()
        && (!run.status.is_terminal() || run.status.as_str() == "interrupted")
    {
        say(&format!("\nIts last run is not complete. Go on with: deerflow resume {id}"));
    }
    Ok(())
}

fn show_message(message: &Message) {
    let said = message.additional_kwargs.get(kwargs::ORIGINAL_USER_CONTENT).and_then(|v| v.as_str());
    let content = said.map_or_else(|| message.text(), Into::into);
    let content = printable(&content);
    match message.role() {
        "human" => say(&format!("\nyou  {content}")),
        "ai" => {
            if !content.trim().is_empty() {
                say(&format!("\nagent  {content}"));
            }
            for call in message.tool_calls() {
                say(&format!("  → {}", crate::render::describe_call(&call.name, &call.args)));
            }
        }
        "tool" => {
            let failed = message.as_tool().is_some_and(|t| t.status == ToolStatus::Error);
            let line = content.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
            say(&format!("  {} {}", if failed { "✗" } else { "✓" }, text::ellipsis(&printable_line(line), 100)));
        }
        _ => {}
    }
}

/// Deletes a thread's files.
async fn remove_files(paths: &ThreadPaths) -> Result<(), Failure> {
    let paths = paths.clone();
    tokio::task::spawn_blocking(move || paths.remove_all()).await.map_err(Failure::run)?.map_err(Failure::run)
}

/// Refuses when a run works on the thread; ends one whose process is dead.
pub(crate) async fn idle(
    store: &(impl ThreadRepo + RunRepo),
    user: &UserId,
    home: &Path,
    id: &ThreadId,
    wanted: &str,
) -> Result<(), Failure> {
    store.thread(user, id).await.map_err(Failure::run)?.ok_or_else(|| missing(id))?;
    let live = RunFilter {
        thread_id: Some(id.clone()),
        status: vec![RunStatus::Pending, RunStatus::Running],
        limit: 1,
        ..RunFilter::default()
    };
    let Some(run) = store.runs(user, live).await.map_err(Failure::run)?.into_iter().next() else { return Ok(()) };
    if WorkerLock::is_held(home, &run.worker) {
        let busy = StoreError::ThreadBusy {
            thread_id: id.to_string(),
            run_id: run.run_id.to_string(),
            holder: run.worker.label,
        };
        let hint = format!("wait for it, or stop it there with Ctrl-C, to {wanted}");
        return Err(Failure::run(format!("{busy}; hint: {hint}")));
    }
    let run = store.adopt(&run.run_id, run.epoch, &run.worker).await.map_err(Failure::run)?;
    let outcome = RunOutcome {
        status: RunStatus::Interrupted,
        error: None,
        stop_reason: Some("orphan_recovered".into()),
        usage: run.usage,
    };
    store.finish(&Fence { run_id: run.run_id, epoch: run.epoch }, outcome, vec![]).await.map_err(Failure::run)
}

/// Asks whether something that cannot be undone is meant. Without a person to ask it is refused.
fn confirm(question: &str, what: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{what} cannot be undone; hint: add --yes")));
    }
    let mut out = std::io::stdout();
    let _ = write!(out, "{question} [y/N] ");
    let _ = out.flush();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(Failure::run)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::usage("nothing deleted")),
    }
}

async fn delete(
    store: &(impl ThreadRepo + RunRepo),
    user: &UserId,
    home: &Path,
    id: &ThreadId,
    paths: &ThreadPaths,
    yes: bool,
) -> Result<(), Failure> {
    let thread = store.thread(user, id).await.map_err(Failure::run)?.ok_or_else(|| missing(id))?;
    if !yes {
        let title = printable_line(thread.title.as_deref().unwrap_or("(no title)"));
        confirm(&format!("Delete thread {id} ({title}) with its history and files?"), &format!("deleting {id}"))?;
    }
    idle(store, user, home, id, "delete it").await?;
    // The files go first: a thread whose files cannot all be removed must not be gone from the list.
    remove_files(paths).await.map_err(|e| {
        Failure::run(format!("the files of {id} cannot all be removed: {}; its history is kept", e.message))
    })?;
    store.delete_thread(user, id).await.map_err(|error| match error {
        StoreError::NotFound { .. } => missing(id),
        other => Failure::run(other),
    })?;
    say(&format!("deleted {id}"));
    Ok(())
}
