//! `deerflow steer`: says something to a run that another process works on.

use super::run::read_prompt;
use super::say;
use crate::app::App;
use crate::failure::Failure;
use deerflow_core::{Message, RunId, ThreadId};
use deerflow_runtime::RuntimeError;
use std::path::PathBuf;

/// A fresh name for an input.
pub(crate) fn input_id() -> String {
    RunId::random().to_string()
}

pub(crate) async fn steer(config: Option<PathBuf>, thread: &str, text: &str) -> Result<(), Failure> {
    let thread_id = ThreadId::parse(thread).map_err(Failure::usage)?;
    let text = read_prompt(text)?;
    let app = App::open(config).await?;
    let queued = app.runs.steer(&app.user, &thread_id, input_id(), Message::human(text)).await;
    let result = match queued {
        Ok(row) => {
            say(&format!("queued for the run of {}; it gets it before its next model turn", row.thread_id));
            Ok(())
        }
        Err(error @ (RuntimeError::NotRunning(_) | RuntimeError::CutOff(_))) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::run(error)),
    };
    app.store.close().await;
    result
}
