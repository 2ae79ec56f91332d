//! Wires configuration, store, sandbox, tools and runtime together.

use crate::failure::Failure;
use deerflow::assembly;
use deerflow_config::{Config, Loader, Registry};
use deerflow_core::UserId;
use deerflow_harness::Harness;
use deerflow_runtime::{RunManager, WorkerLock};
use deerflow_store::SqliteStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sections that this build reads, and those of the original that it knows and does not have yet.
pub(crate) fn registry() -> Registry {
    let later = [
        ("memory", "memory"),
        ("subagents", "sub-agents"),
        ("acp_agents", "ACP agents"),
        ("skills", "skills"),
        ("skill_scan", "skills"),
        ("skill_evolution", "skills"),
        ("tool_search", "deferred tools"),
        ("channels", "chat channels"),
        ("channel_connections", "chat channels"),
        ("scheduler", "scheduled tasks"),
        ("mcp_tasks", "MCP"),
        ("extensions", "extensions"),
        ("plugins", "plugins"),
        ("stream_bridge", "the server"),
        ("run_events", "the server"),
        ("run_ownership", "the server"),
        ("agents_api", "the server"),
        ("agent_storage", "the server"),
        ("suggestions", "the server"),
        ("input_polish", "the server"),
        ("dedupe_storage", "the server"),
        ("checkpointer", "a setting of its own; `database` decides where checkpoints go"),
        ("logging", "the server"),
        ("log_level", "the server; set DEER_FLOW_LOG instead"),
        ("tools", "a choice of tools; all built-in tools are offered"),
        ("tool_groups", "a choice of tools; all built-in tools are offered"),
        ("config_version", "versions of the file"),
    ];
    let registry = deerflow_gateway::sections(assembly::sections());
    later.into_iter().fold(registry, |r, (key, what)| {
        r.known_but_absent(key, format!("this version has no use for it yet ({what})"))
    })
}

/// A loader over the process's environment.
pub(crate) fn loader(file: Option<PathBuf>) -> Result<Loader, Failure> {
    let cwd =
        std::env::current_dir().map_err(|e| Failure::usage(format!("the working directory cannot be used: {e}")))?;
    let loader = Loader::new(registry()).env_os(std::env::vars_os()).cwd(cwd);
    Ok(match file {
        Some(file) => loader.file(file),
        None => loader,
    })
}

/// Loads the configuration and shows its warnings.
#[expect(clippy::print_stderr, reason = "warnings belong on the terminal")]
pub(crate) fn load_config(file: Option<PathBuf>) -> Result<Arc<Config>, Failure> {
    let config = loader(file)?.load().map_err(Failure::usage)?;
    for warning in config.warnings().iter().filter(|w| w.severity == deerflow_config::Severity::Warning) {
        eprintln!("warning: {warning}");
    }
    Ok(Arc::new(config))
}

/// Opens the database.
pub(crate) async fn open_store(config: &Config) -> Result<Arc<SqliteStore>, Failure> {
    assembly::open_store(config).await.map_err(Failure::usage)
}

/// Everything a run needs.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) harness: Arc<Harness>,
    pub(crate) runs: RunManager<SqliteStore>,
    pub(crate) user: UserId,
    /// The database file as it was opened: its device and number.
    file: Option<(u64, u64)>,
}

impl App {
    pub(crate) async fn open(file: Option<PathBuf>) -> Result<Self, Failure> {
        let config = load_config(file)?;
        let lock = WorkerLock::acquire(config.home()).map_err(Failure::usage)?;
        let store = open_store(&config).await?;
        let harness = assembly::harness(config.clone(), &store).await.map_err(Failure::usage)?;
        let runs = RunManager::new(store.clone(), harness.clone(), lock);
        let file = file_identity(store.path());
        Ok(Self { config, store, harness, runs, user: UserId::local(), file })
    }

    /// Whether the database is not where it was any more: SQLite itself would go on writing to a file that nobody can open
    /// again.
    pub(crate) fn is_gone(&self) -> bool {
        self.file.is_some() && file_identity(self.store.path()) != self.file
    }
}

fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
