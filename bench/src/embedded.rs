//! The product inside this process: configuration, store, harness and runs wired as the command line wires them.

use crate::product::{config, new_home};
use anyhow::{Context, Result, ensure};
use deerflow_config::{Config, Loader, ModelsSection, Registry};
use deerflow_core::{AgentEvent, Message, RunStatus, ThreadId, UserId};
use deerflow_documents::Converter;
use deerflow_harness::{Harness, HarnessPorts, LeadOptions, ModelCatalogue};
use deerflow_runtime::{RunManager, RunRequest, WorkerLock};
use deerflow_sandbox::{Launcher, SandboxConfig};
use deerflow_store::{DatabaseConfig, SqliteStore, StoreOptions};
use deerflow_tools::{BuiltinTools, ToolLimits};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home and everything over it.
pub(crate) struct Embedded {
    pub(crate) store: Arc<SqliteStore>,
    runs: RunManager<SqliteStore>,
    database: PathBuf,
    options: StoreOptions,
    home: TempDir,
}

/// The moments of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) start: Instant,
    /// The first piece of the answer had been received.
    pub(crate) first: Instant,
    /// The run had ended, and its last step was durable.
    pub(crate) end: Instant,
}

impl Embedded {
    pub(crate) async fn open(dir: &Path, base_url: &str) -> Result<Self> {
        let home = new_home(dir)?;
        let file = home.path().join("config.yaml");
        std::fs::write(&file, config(base_url))?;
        let registry = Registry::new().with::<ModelsSection>().with::<SandboxConfig>().with::<DatabaseConfig>();
        let variables = ["HOME", "DEER_FLOW_HOME"].map(|name| (name.to_owned(), home.path().display().to_string()));
        let config: Arc<Config> = Arc::new(Loader::new(registry).env(variables).cwd(home.path()).file(file).load()?);
        let database = config.section::<DatabaseConfig>();
        let (path, options) = (database.path(config.home()), database.options());
        let store = Arc::new(SqliteStore::open(&path, options.clone()).await?);
        let section = (*config.section::<SandboxConfig>()).clone();
        let limits = ToolLimits::from(&section);
        let sandbox = deerflow_sandbox::create_provider(config.home(), section, Launcher::current()).await?;
        let models = ModelCatalogue::new(&config.section::<ModelsSection>(), Arc::new(|_| None));
        let tools = BuiltinTools::new(sandbox.clone(), limits, Converter::default());
        let lock = WorkerLock::acquire(config.home())?;
        let harness = Arc::new(Harness::new(config, models, sandbox, tools, None).with_ports(HarnessPorts::of(&store)));
        let runs = RunManager::new(store.clone(), harness, lock);
        Ok(Self { store, runs, database: path, options, home })
    }

    /// Runs a prompt on a thread to its end.
    pub(crate) async fn run(&self, thread_id: &ThreadId, prompt: &str) -> Result<Moments> {
        let request = RunRequest {
            user_id: UserId::local(),
            thread_id: thread_id.clone(),
            message: Message::human(prompt),
            goal: None,
            options: LeadOptions { interactive: true, ..LeadOptions::default() },
        };
        tokio::time::timeout(PATIENCE, self.follow(request)).await.context("the run did not end")?
    }

    async fn follow(&self, request: RunRequest) -> Result<Moments> {
        let start = Instant::now();
        let mut handle = self.runs.start(request).await?.handle;
        let mut first = None;
        while let Some(event) = handle.events.recv().await {
            if first.is_none() && matches!(event, AgentEvent::ModelDelta { .. }) {
                first = Some(Instant::now());
            }
        }
        let outcome = handle.finished().await?.outcome;
        let end = Instant::now();
        ensure!(outcome.status == RunStatus::Success, "a run ended badly: {outcome:?}");
        Ok(Moments { start, first: first.context("a run had no answer")?, end })
    }

    /// Bytes of the database: file, write-ahead log and its index.
    pub(crate) fn database_bytes(&self) -> Result<u64> {
        let folder = self.database.parent().context("the database has no folder")?;
        let name = self.database.file_name().context("the database has no name")?.to_string_lossy().into_owned();
        let mut bytes = 0;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&name) {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes)
    }

    /// Closes everything, and opens the database alone, as another process would find it.
    pub(crate) async fn reopen(self) -> Result<Reopened> {
        self.store.close().await;
        let Self { store, runs, database, options, home } = self;
        drop((store, runs));
        Ok(Reopened { store: SqliteStore::open(&database, options).await?, _home: home })
    }
}

/// The database of a home that is no longer in use.
pub(crate) struct Reopened {
    pub(crate) store: SqliteStore,
    _home: TempDir,
}
