//! `deerflow run`: a task and files in, an answer and delivered files out.

use super::deliver;
use super::session::Session;
use super::uploads::Uploads;
use crate::app::App;
use crate::cli::RunArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::render::Renderer;
use deerflow_core::message::kwargs;
use deerflow_core::{Message, Principal, ThreadId};
use deerflow_harness::LeadOptions;
use deerflow_harness::goal::new_goal;
use deerflow_runtime::RunRequest;
use std::io::Read;
use std::path::PathBuf;

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
    let interactive = args.show.can_ask() && args.prompt.as_deref() != Some("-");
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
    let goal =
        args.goal.as_deref().map(|text| new_goal(text, args.max_continuations)).transpose().map_err(Failure::usage)?;
    let mut renderer = Renderer::new(args.show);
    // Nothing is copied for a run that cannot begin.
    app.runs.ensure_idle(&app.user, &thread_id).await.map_err(Failure::run)?;
    let uploads = Uploads::stage(&app, &thread_id, &args.files, &mut renderer).await?;
    let mut message = Message::human(prompt);
    if !args.files.is_empty() {
        message = message.with_kwarg(kwargs::FILES, uploads.to_json());
    }
    let request =
        RunRequest { user_id: app.user.clone(), thread_id: thread_id.clone(), message, goal, options: options.clone() };
    let result = match app.runs.start(request).await {
        Ok(started) => {
            let console = interactive.then(Console::open).transpose().map_err(Failure::run)?;
            let output = args.output.as_deref();
            Box::pin(Session { app: &app, thread_id, options, output, renderer, console }.go(started)).await
        }
        Err(error) => {
            uploads.remove(&app, &thread_id).await;
            Err(Failure::run(error))
        }
    };
    app.store.close().await;
    result
}

/// The text of an argument; `-` is standard input.
pub(crate) fn read_prompt(argument: &str) -> Result<String, Failure> {
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
