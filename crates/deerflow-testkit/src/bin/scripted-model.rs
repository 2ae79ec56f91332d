//! The scripted model as a program, for benchmarks and runs by hand. Its replies depend on the request alone: a script
//! file if one is given, markers such as `[[script:tools n=20]]` in the user's message (see `marker.rs`), else a plain
//! answer. `GET /stats` counts what was played, `POST /reset` starts the counts over.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use deerflow_testkit::{ScriptFile, ScriptedModel, Turn, marked_turn, words};

/// A scripted OpenAI-compatible model server on loopback.
#[derive(Parser)]
struct Args {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8900)]
    port: u16,
    /// Script file (JSON); requests that it does not know fall back to markers.
    #[arg(long)]
    script: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("scripted-model: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let file = args.script.as_deref().map(ScriptFile::load).transpose()?;
    let model = ScriptedModel::listen(args.port)?;
    model.forget_requests();
    model.always(move |request| {
        let scripted = file.as_ref().and_then(|file| file.turn(request));
        scripted.or_else(|| marked_turn(request)).unwrap_or_else(|| Turn::text(words(50)).label("plain"))
    });
    say(&format!("scripted-model on {}", model.base_url()));
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what this program has to say to its user")]
fn say(text: &str) {
    eprintln!("{text}");
}
