//! `deerflow goal`: how a thread's goal stands, and its end.

use super::threads::{idle, missing, parse};
use super::{say, say_json};
use crate::app;
use crate::cli::GoalCommand;
use crate::failure::Failure;
use crate::render::goal_in_words;
use deerflow_core::ports::{StepLog, ThreadRepo};
use deerflow_core::{Lineage, UserId};
use deerflow_runtime::{StateEdit, update_state};
use serde_json::json;
use std::path::PathBuf;

pub(crate) async fn goal(config: Option<PathBuf>, command: GoalCommand) -> Result<(), Failure> {
    let config = app::load_config(config)?;
    let store = app::open_store(&config).await?;
    let user = UserId::local();
    let result = match command {
        GoalCommand::Show { thread, json } => show(&*store, &user, &thread, json).await,
        GoalCommand::Clear { thread } => {
            let thread_id = parse(&thread)?;
            match idle(&*store, &user, config.home(), &thread_id, "end its goal").await {
                Ok(()) => clear(&*store, &user, &thread).await,
                busy => busy,
            }
        }
    };
    store.close().await;
    result
}

async fn show(store: &(impl ThreadRepo + StepLog), user: &UserId, thread: &str, json: bool) -> Result<(), Failure> {
    let id = parse(thread)?;
    store.thread(user, &id).await.map_err(Failure::run)?.ok_or_else(|| missing(&id))?;
    let head = store.load(&Lineage::root(id.clone()), None).await.map_err(Failure::run)?;
    let state = head.map(|head| head.state).unwrap_or_default();
    if json {
        return say_json(&json!({"thread_id": id, "goal": state.goal, "goal_outcome": state.goal_outcome}));
    }
    match goal_in_words(&state) {
        Some(lines) => lines.iter().for_each(|line| say(line)),
        None => say(&format!("{id} has no goal; set one with: deerflow run --goal \"…\" --thread {id}")),
    }
    Ok(())
}

async fn clear(store: &(impl ThreadRepo + StepLog), user: &UserId, thread: &str) -> Result<(), Failure> {
    let id = parse(thread)?;
    let head = store.load(&Lineage::root(id.clone()), None).await.map_err(Failure::run)?;
    let Some(goal) = head.and_then(|head| head.state.goal) else {
        say(&format!("{id} has no goal"));
        return Ok(());
    };
    let edit = StateEdit { update: deerflow_harness::goal::clear(), ..StateEdit::default() };
    update_state(store, user, &id, edit).await.map_err(Failure::run)?;
    say(&format!("ended the goal of {id}: {}", crate::render::printable_line(&goal.objective)));
    Ok(())
}
