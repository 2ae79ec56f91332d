//! `deerflow resume`: goes on with a run that was cut off.

use super::clarify;
use super::deliver;
use super::run::{conclude, follow};
use crate::app::App;
use crate::cli::ResumeArgs;
use crate::failure::Failure;
use crate::render::Renderer;
use deerflow_core::ThreadId;
use deerflow_runtime::RuntimeError;
use std::path::PathBuf;

pub(crate) async fn resume(config: Option<PathBuf>, args: ResumeArgs) -> Result<(), Failure> {
    let thread_id = ThreadId::parse(args.thread.as_str()).map_err(Failure::usage)?;
    deliver::check(args.output.as_deref())?;
    let app = App::open(config).await?;
    let started = app.runs.resume(&app.user, &thread_id, true).await.map_err(|error| match error {
        RuntimeError::NoThread(_) | RuntimeError::NothingToResume(_) => Failure::usage(error),
        other => Failure::run(other),
    })?;
    let mut renderer = Renderer::new(args.show);
    let ended = follow(&app, started, &mut renderer, args.output.as_deref()).await?;
    clarify::answer(&ended, false, &mut renderer).await?;
    let result = conclude(&ended, args.output.as_deref(), &mut renderer);
    app.store.close().await;
    result
}
