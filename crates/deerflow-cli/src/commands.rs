//! The commands, one file each.

mod agent;
mod approve;
mod clarify;
mod config;
mod cost;
mod deliver;
mod doctor;
mod goal;
mod keys;
mod models;
mod resume;
mod run;
mod serve;
mod session;
mod steer;
mod threads;
mod uploads;
mod users;
mod watch;

use crate::cli::{Cli, Command};
pub(crate) use approve::describe as describe_questions;
pub(crate) use clarify::{message as question_message, question};
pub(crate) use cost::as_json as cost_as_json;
pub(crate) use session::limit_in_words;
pub(crate) use watch::Ended;

use crate::failure::Failure;

/// Runs a command.
pub(crate) async fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run(args) => Box::pin(run::run(cli.config, args)).await,
        Command::Resume(args) => Box::pin(resume::resume(cli.config, args)).await,
        Command::Serve(args) => Box::pin(serve::serve(cli.config, args)).await,
        Command::Steer { thread, text } => steer::steer(cli.config, &thread, &text).await,
        Command::Goal(command) => goal::goal(cli.config, command).await,
        Command::Threads(command) => threads::threads(cli.config, command).await,
        Command::Users(command) => users::users(cli.config, command).await,
        Command::Keys(command) => keys::keys(cli.config, command).await,
        Command::Models { json } => models::models(cli.config, json),
        Command::Agent(command) => agent::agent(cli.config, command).await,
        Command::Config(command) => config::config(cli.config, command),
        Command::Doctor { json } => doctor::doctor(cli.config, json).await,
        Command::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "deerflow", &mut std::io::stdout());
            Ok(())
        }
    }
}

/// Prints a line on standard output; a closed pipe ends the output, not the program.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            // What was asked for cannot be handed over; going on would pretend that it was.
            let _ = writeln!(std::io::stderr().lock(), "error: cannot write the output: {error}");
            std::process::exit(i32::from(crate::failure::RUN));
        }
        _ => {}
    }
}

/// Prints a value as JSON.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string_pretty(value).map_err(Failure::run)?);
    Ok(())
}
