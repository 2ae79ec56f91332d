//! `deerflow run`: a task and files in, an answer and delivered files out.

use super::watch::{Ended, watch};
use super::{clarify, deliver};
use crate::app::App;
use crate::cli::RunArgs;
use crate::failure::{Failure, INTERRUPTED, NEEDS_USER, RUN};
use crate::render::Renderer;
use deerflow_core::message::kwargs;
use deerflow_core::{Message, Principal, RunStatus, ThreadId};
use deerflow_documents::{StageOptions, Upload, UploadLimits, stage_files};
use deerflow_harness::LeadOptions;
use deerflow_harness::goal::new_goal;
use deerflow_runtime::{RunRequest, Started};
use deerflow_sandbox::ThreadPaths;
use serde_json::json;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Longest prompt read from standard input.
const PROMPT_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) async fn run(config: Option<PathBuf>, args: RunArgs) -> Result<(), Failure> {
    let prompt = read_prompt(args.prompt.as_deref().or(args.goal.as_deref()).unwrap_or_default())?;
    let thread_id = match &args.thread {
        Some(id) => ThreadId::parse(id.as_str()).map_err(Failure::usage)?,
        None => ThreadId::random(),
    };
    deliver::check(args.output.as_deref())?;
    let app = App::open(config).await?;
    let interactive = std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal()
        && args.prompt.as_deref() != Some("-")
        && !args.show.json;
    let options = LeadOptions {
        model: args.model.clone(),
        agent: args.agent.clone(),
        plan_mode: args.plan,
        thinking: args.thinking.as_deref().map(|level| level != "off"),
        reasoning_effort: args.thinking.as_deref().filter(|l| !matches!(*l, "on" | "off")).map(str::to_owned),
        // A question is worth asking without a terminal too: the run ends with it, and the answer is the next message.
        interactive: true,
        max_turns: args.max_turns,
        recall: args.recall,
    };
    // Wrong names are told before any file is copied.
    app.harness.lead_agent(&app.user, &Principal::default(), &options).await.map_err(Failure::usage)?;
    let mut goal =
        args.goal.as_deref().map(|text| new_goal(text, args.max_continuations)).transpose().map_err(Failure::usage)?;
    let mut renderer = Renderer::new(args.show);
    let mut message = Message::human(prompt);
    if !args.files.is_empty() {
        let files = stage(&app, &thread_id, &args.files, &mut renderer).await?;
        message = message.with_kwarg(kwargs::FILES, files);
    }
    loop {
        let request = RunRequest {
            user_id: app.user.clone(),
            thread_id: thread_id.clone(),
            message,
            goal: goal.take(),
            options: options.clone(),
        };
        let started = app.runs.start(request).await.map_err(Failure::run)?;
        let ended = follow(&app, started, &mut renderer, args.output.as_deref()).await?;
        match clarify::answer(&ended, interactive, &mut renderer).await? {
            Some(reply) => message = reply,
            None => {
                let result = conclude(&ended, args.output.as_deref(), &mut renderer);
                app.store.close().await;
                return result;
            }
        }
    }
}

/// Shows a run until it ends, and hands over what it delivered.
pub(crate) async fn follow(
    app: &App,
    started: Started,
    renderer: &mut Renderer,
    output: Option<&Path>,
) -> Result<Ended, Failure> {
    if let Some(dead) = &started.recovered {
        renderer.note(&format!(
            "an earlier run of this thread was cut off ({} is gone); its finished steps are kept",
            dead.worker.label
        ));
    }
    let mut ended = watch(started.handle, renderer).await?;
    ended.files = deliver::deliver(app, &ended, output, renderer).await?;
    renderer.finished(&ended);
    Ok(ended)
}

/// The exit code of a run that has ended.
pub(crate) fn conclude(ended: &Ended, output: Option<&Path>, renderer: &mut Renderer) -> Result<(), Failure> {
    let resume = match output {
        Some(output) => format!("deerflow resume {} --output {}", ended.thread_id, output.display()),
        None => format!("deerflow resume {}", ended.thread_id),
    };
    if ended.outcome.status == RunStatus::Success
        && let Some(limit) = ended.outcome.stop_reason.as_deref().and_then(limit_in_words)
    {
        renderer.note(&format!("{limit}; go on with: deerflow run \"continue\" --thread {}", ended.thread_id));
    }
    match ended.outcome.status {
        RunStatus::Success if clarify::question(&ended.state).is_some() => Err(Failure::silent(NEEDS_USER)),
        RunStatus::Success => Ok(()),
        RunStatus::Interrupted => {
            renderer.note(&format!("stopped; go on with: {resume}"));
            Err(Failure::silent(INTERRUPTED))
        }
        _ => {
            let reason = ended.outcome.error.clone().unwrap_or_else(|| "the run failed".to_owned());
            Err(Failure {
                message: format!("{reason}; hint: when the cause is mended, go on with: {resume}"),
                code: RUN,
            })
        }
    }
}

/// What a person should know of the limit that ended a run.
fn limit_in_words(stop_reason: &str) -> Option<&'static str> {
    Some(match stop_reason {
        "turn_capped" => "ended at its limit of model turns (--max-turns), perhaps unfinished",
        "loop_capped" => "ended because the model repeated itself",
        "model_length_capped" => "the answer was cut off at the model's output limit",
        "safety_capped" => "ended because the provider blocked the reply",
        _ => return None,
    })
}

fn read_prompt(argument: &str) -> Result<String, Failure> {
    let prompt = if argument == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(PROMPT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| Failure::usage(format!("cannot read standard input: {e}")))?;
        if bytes.len() as u64 > PROMPT_BYTES {
            return Err(Failure::usage(
                "the prompt on standard input is larger than 4 MiB; hint: give it as a file with --file",
            ));
        }
        deerflow_documents::decode_text(&bytes)
            .map(|t| t.text)
            .ok_or_else(|| Failure::usage("standard input is not text; hint: give files with --file"))?
    } else {
        argument.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty; hint: deerflow run \"what to do\" --file notes.pdf"));
    }
    Ok(prompt)
}

/// Copies the user's files into the thread, all or none; a folder made for that does not outlive a failure.
async fn stage(
    app: &App,
    thread_id: &ThreadId,
    files: &[PathBuf],
    renderer: &mut Renderer,
) -> Result<serde_json::Value, Failure> {
    let paths = ThreadPaths::new(app.config.home(), app.user.as_str(), thread_id.as_str()).map_err(Failure::usage)?;
    let is_new = !paths.thread_dir().exists();
    let staged = copy(app, thread_id, files, &paths).await;
    if staged.is_err() && is_new {
        // What cannot be removed is empty folders.
        let _ = tokio::task::spawn_blocking(move || paths.remove_all()).await;
    }
    let uploads = staged?;
    for upload in &uploads {
        if let Some(original) = &upload.original_filename {
            renderer.note(&format!("{original} is kept as {} in this thread", upload.filename));
        }
        if let Some(warning) = &upload.warning {
            renderer.note(&format!("{}: {warning}", upload.filename));
        }
    }
    let entry = |u: &Upload| {
        json!({
            "filename": u.filename, "size": u.size, "path": format!("/mnt/user-data/uploads/{}", u.filename),
            "status": "uploaded", "markdown_file": u.markdown_file,
        })
    };
    Ok(uploads.iter().map(entry).collect())
}

async fn copy(app: &App, thread_id: &ThreadId, files: &[PathBuf], paths: &ThreadPaths) -> Result<Vec<Upload>, Failure> {
    // The sandbox makes the folders for its user.
    app.harness.sandbox().acquire(app.user.as_str(), thread_id.as_str()).await.map_err(Failure::run)?;
    let options = StageOptions {
        limits: (*app.config.section::<UploadLimits>()).clone(),
        converter: Some(crate::app::converter()?),
        owner: app.harness.sandbox().file_owner(),
    };
    stage_files(files, &paths.uploads(), &options).await.map_err(Failure::usage)
}
