//! `deerflow resume`: goes on with a run that was cut off, or that waits for an answer.

use super::session::Session;
use super::{approve, deliver};
use crate::app::App;
use crate::cli::ResumeArgs;
use crate::console::Console;
use crate::failure::{Failure, NEEDS_USER};
use crate::render::Renderer;
use deerflow_core::ports::StepLog;
use deerflow_core::{Interrupt, Lineage, ThreadId};
use deerflow_runtime::{RuntimeError, Started};
use std::path::PathBuf;

pub(crate) async fn resume(config: Option<PathBuf>, args: ResumeArgs) -> Result<(), Failure> {
    let thread_id = ThreadId::parse(args.thread.as_str()).map_err(Failure::usage)?;
    deliver::check(args.output.as_deref())?;
    let app = App::open(config).await?;
    let mut console = args.show.can_ask().then(Console::open).transpose().map_err(Failure::run)?;
    let mut renderer = Renderer::new(args.show);
    let started = Box::pin(begin(&app, &thread_id, args.answer.as_deref(), &mut renderer, &mut console)).await;
    let result = match started {
        Ok(started) => {
            let options = app.runs.last_options(&app.user, &thread_id).await.map_err(Failure::run)?;
            let output = args.output.as_deref();
            Box::pin(Session { app: &app, thread_id, options, output, renderer, console }.go(started)).await
        }
        Err(failure) => Err(failure),
    };
    app.store.close().await;
    result
}

/// Takes the run up, or answers the questions that it waits with.
async fn begin(
    app: &App,
    thread_id: &ThreadId,
    answer: Option<&str>,
    renderer: &mut Renderer,
    console: &mut Option<Console>,
) -> Result<Started, Failure> {
    let answer = match answer {
        Some(text) => approve::from_flag(&questions(app, thread_id).await?, text).map_err(Failure::usage)?,
        None => match Box::pin(app.runs.resume(&app.user, thread_id, true)).await {
            Ok(started) => return Ok(started),
            Err(RuntimeError::NeedsAnswer(_)) => {
                let questions = questions(app, thread_id).await?;
                renderer.question(&questions);
                let answer = approve::ask(&questions, thread_id, renderer, console.as_mut()).await;
                answer.ok_or(Failure::silent(NEEDS_USER))?
            }
            Err(error) => return Err(refused(error)),
        },
    };
    app.runs.answer(&app.user, thread_id, answer).await.map_err(refused)
}

async fn questions(app: &App, thread_id: &ThreadId) -> Result<Vec<Interrupt>, Failure> {
    let head = app.store.load(&Lineage::root(thread_id.clone()), None).await.map_err(Failure::run)?;
    Ok(head.map(|head| head.state.interrupts()).unwrap_or_default())
}

fn refused(error: RuntimeError) -> Failure {
    match error {
        RuntimeError::NoThread(_) | RuntimeError::NothingToResume(_) | RuntimeError::NotWaiting(_) => {
            Failure::usage(error)
        }
        other => Failure::run(other),
    }
}
