//! The `deerflow` binary: the command line over the runtime.
//!
//! **Invariant:** only here and in `deerflow-config` is the environment read, and only here is the terminal written.

mod app;
mod cli;
mod commands;
mod console;
mod failure;
mod render;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The binary is its own sandbox launcher and document worker. Both must come before any thread is started.
    if deerflow_sandbox::is_launcher_invocation() {
        deerflow_sandbox::launcher_main();
    }
    if deerflow_documents::is_worker_invocation() {
        deerflow_documents::worker_main();
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, everything else is wrong usage.
            let code = if error.use_stderr() { failure::USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    init_logs();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::Failure::run(format!("cannot start: {error}")).report(),
    };
    let code = match runtime.block_on(commands::dispatch(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    };
    // A blocking conversion that was given up on must not hold up the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    code
}

/// Logs go to stderr and are off unless `DEER_FLOW_LOG` (or `RUST_LOG`) asks for them: progress is what people watch.
fn init_logs() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("DEER_FLOW_LOG").or_else(|_| EnvFilter::try_from_default_env());
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
