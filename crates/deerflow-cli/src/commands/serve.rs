//! `deerflow serve`: the server in the foreground.

use crate::app::App;
use crate::cli::ServeArgs;
use crate::commands::say;
use crate::failure::Failure;
use deerflow_gateway::{AppParts, AppState, ServeError, ServerConfig, router};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Serves until SIGINT or SIGTERM.
pub(crate) async fn serve(config: Option<PathBuf>, args: ServeArgs) -> Result<(), Failure> {
    let app = App::open(config).await?;
    let address = format!("{}:{}", args.host, args.port);
    let listener = TcpListener::bind((args.host.as_str(), args.port))
        .await
        .map_err(|source| Failure::usage(ServeError::Listen { address, source }))?;
    let bound = listener.local_addr().map_err(Failure::run)?;
    let url = format!("http://{bound}");
    say(&format!("DeerFlow listens on {url}  (API: {url}/docs, stop: Ctrl-C)"));

    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::run)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::run)?;
    let server = app.config.section::<ServerConfig>();
    let state = AppState::new(AppParts {
        config: app.config.clone(),
        store: app.store.clone(),
        harness: app.harness.clone(),
        stop: stop.clone(),
    });
    if args.open {
        open_browser(&url);
    }
    let headers = Duration::from_secs(server.header_timeout_seconds);
    let grace = Duration::from_secs(server.shutdown_grace_seconds);
    let serving = deerflow_gateway::serve(listener, router(state), headers, grace, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
    serving.await;
    app.store.close().await;
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
