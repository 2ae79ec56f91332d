//! `deerflow serve`: the server in the foreground.

use crate::app::{load_config, open_store};
use crate::cli::ServeArgs;
use crate::commands::say;
use crate::failure::Failure;
use deerflow_gateway::{AppParts, AppState, ServeError, ServerConfig, router};
use deerflow_runtime::{Bridge, Runs, RunsConfig, WorkerLock};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long open requests may take once the runs are over.
const STREAMS: Duration = Duration::from_secs(2);

/// Serves until SIGINT or SIGTERM.
pub(crate) async fn serve(config: Option<PathBuf>, args: ServeArgs) -> Result<(), Failure> {
    let config = load_config(config)?;
    let lock = WorkerLock::acquire(config.home()).map_err(Failure::usage)?;
    let store = open_store(&config).await?;
    let harness = deerflow::assembly::harness(config.clone(), &store).await.map_err(Failure::usage)?;
    let address = format!("{}:{}", args.host, args.port);
    let listener = TcpListener::bind((args.host.as_str(), args.port))
        .await
        .map_err(|source| Failure::usage(ServeError::Listen { address, source }))?;
    let bound = listener.local_addr().map_err(Failure::run)?;

    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::run)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::run)?;
    let settings = (*config.section::<RunsConfig>()).clone();
    let runs = Runs::new(store.clone(), harness.clone(), Bridge::default(), lock, settings);
    let taken = runs.recover().await.map_err(Failure::run)?;
    let server = config.section::<ServerConfig>();
    let parts = AppParts { config, store: store.clone(), harness, runs: runs.clone(), stop: stop.clone() };
    let headers = Duration::from_secs(server.header_timeout_seconds);
    let grace = Duration::from_secs(server.shutdown_grace_seconds);
    let serving = deerflow_gateway::serve(listener, router(AppState::new(parts)), headers, STREAMS, stop.clone());

    let url = format!("http://{bound}");
    say(&format!("DeerFlow listens on {url}  (API: {url}/docs, stop: Ctrl-C)"));
    if taken > 0 {
        say(&format!("Going on with {taken} runs that were cut off"));
    }
    if args.open {
        open_browser(&url);
    }
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // No new runs; those under way may end. A second signal does not wait for them.
    tokio::select! {
        () = runs.shutdown(grace) => {}
        () = &mut serving => {}
        _ = interrupt.recv() => runs.shutdown(Duration::ZERO).await,
        _ = terminate.recv() => runs.shutdown(Duration::ZERO).await,
    }
    stop.cancel();
    serving.await;
    store.close().await;
    Ok(())
}

/// Asks the desktop to show the page; a machine without one is no error.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = std::process::Command::new(program).arg(url).stdin(std::process::Stdio::null()).spawn();
    if let Err(error) = started {
        say(&format!("Cannot open a browser ({program}: {error}); the address is {url}"));
    }
}
