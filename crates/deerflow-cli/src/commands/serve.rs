//! `deerflow serve`: the server in the foreground.

use crate::app::{load_config, open_store};
use crate::cli::ServeArgs;
use crate::commands::say;
use crate::failure::Failure;
use deerflow_core::ports::UserRepo as _;
use deerflow_gateway::{AppParts, AppState, Auth, Environment, ServeError, ServerConfig, router};
use deerflow_runtime::{Bridge, Runs, RunsConfig, WorkerLock};
use deerflow_sandbox::{ProviderKind, SandboxConfig};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
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
    let auth = Auth::open(config.clone(), environment()).await.map_err(Failure::usage)?;
    let confined = !matches!(config.section::<SandboxConfig>().provider_kind(), Ok(ProviderKind::Host));
    auth.permit(bound.ip(), confined).map_err(Failure::usage)?;
    let url = format!("http://{bound}");
    let needs_setup = auth.is_enabled() && store.count_admins().await.map_err(Failure::run)? == 0;

    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::run)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::run)?;
    let settings = (*config.section::<RunsConfig>()).clone();
    let runs = Runs::new(store.clone(), harness.clone(), Bridge::default(), lock, settings);
    let taken = runs.recover().await.map_err(Failure::run)?;
    say(&format!("DeerFlow listens on {url}  (API: {url}/docs, stop: Ctrl-C)"));
    greet(&auth, &url, bound.ip(), needs_setup);
    if taken > 0 {
        say(&format!("Going on with {taken} runs that were cut off"));
    }
    let server = config.section::<ServerConfig>();
    let (auth, stopping) = (Arc::new(auth), stop.clone());
    let parts = AppParts { config, store: store.clone(), harness, runs: runs.clone(), auth, stop: stopping };
    let headers = Duration::from_secs(server.header_timeout_seconds);
    let grace = Duration::from_secs(server.shutdown_grace_seconds);
    let serving = deerflow_gateway::serve(listener, router(AppState::new(parts)), headers, STREAMS, stop.clone());
    if args.open {
        open_browser(&if needs_setup { format!("{url}/setup") } else { url });
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

/// Variables that are text.
fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Says what to do first, and what a stranger could do.
fn greet(auth: &Auth, url: &str, address: IpAddr, needs_setup: bool) {
    let exposed = !address.is_loopback();
    if !auth.is_enabled() {
        say("Login is off: whoever uses this machine is the administrator.");
    } else if needs_setup {
        say(&format!("Create your account: {url}/setup"));
        say("  or on the command line: deerflow users create you@example.com --admin");
        say("  or try it without login, on this machine only: DEER_FLOW_AUTH_DISABLED=1 deerflow serve");
        if exposed {
            say("Do it now: until then whoever reaches this address can create the first account.");
        }
    } else {
        say(&format!("Log in: {url}/login   (programs: deerflow keys create NAME)"));
    }
    if auth.is_enabled() && exposed && auth.registration_is_open() {
        say("Whoever reaches this address can create an account; `auth.local.allow_registration: false` closes that.");
    }
}

/// Asks the desktop to show the page; a machine without one is no error.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = std::process::Command::new(program).arg(url).stdin(std::process::Stdio::null()).spawn();
    if let Err(error) = started {
        say(&format!("Cannot open a browser ({program}: {error}); the address is {url}"));
    }
}
