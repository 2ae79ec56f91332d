//! How a client comes to be.

use super::DeerFlowClient;
use crate::assembly::{self, AssemblyError};
use crate::children;
use deerflow_config::{Config, ConfigError, Loader};
use deerflow_core::{ChatModel, Principal, StoreError, UserId};
use deerflow_documents::Converter;
use deerflow_harness::ModelCatalogue;
use deerflow_runtime::{Bridge, Caller, Runs, RunsConfig, WorkerError, WorkerLock};
use deerflow_sandbox::{ProviderKind, SandboxConfig, SandboxProvider};
use deerflow_service::Service;
use std::path::PathBuf;
use std::sync::Arc;

/// A client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The configuration has errors.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Database or sandbox are not to be had.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] WorkerError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The isolated sandbox starts the running program again, and that would not answer.
    #[error(
        "the isolated sandbox needs `deerflow::answer_children()` as the first line of `main`; \
         hint: or give another sandbox, or set `sandbox.use` to `host` (commands then run without a boundary)"
    )]
    Children,
    /// There is no model of this name.
    #[error("there is no model {name:?}; hint: known models: {}", .known.join(", "))]
    Model {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The file could not be read because the program is ending.
    #[error("the configuration was not read: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// Says how a client is to be. Without a word it is as `deerflow serve` would be: `config.yaml` of the working directory or the
/// home, variables of the environment.
#[derive(Default)]
pub struct ClientBuilder {
    config: Option<Arc<Config>>,
    file: Option<PathBuf>,
    home: Option<PathBuf>,
    set: Vec<(String, String)>,
    model: Option<String>,
    chat_models: Vec<Arc<dyn ChatModel>>,
    sandbox: Option<Arc<dyn SandboxProvider>>,
    user: Option<(UserId, Principal)>,
}

impl ClientBuilder {
    /// A configuration that is loaded already. File, home and single values are of no use then.
    #[must_use]
    pub fn config(mut self, config: impl Into<Arc<Config>>) -> Self {
        self.config = Some(config.into());
        self
    }
    /// The configuration file; it must exist.
    #[must_use]
    pub fn config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }
    /// The folder for data, absolute.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }
    /// Overrides one value of the configuration: `set("title.enabled", "false")`.
    #[must_use]
    pub fn set(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((path.into(), value.into()));
        self
    }
    /// The model of runs that name none; the default of the configuration when absent.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }
    /// A model that the program brings, named as its `info` says; the first one answers when a run names none.
    #[must_use]
    pub fn chat_model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.chat_models.push(model);
        self
    }
    /// The computer of the threads, in place of the configured one.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Arc<dyn SandboxProvider>) -> Self {
        self.sandbox = Some(sandbox);
        self
    }
    /// Whose it is, and what policies may know of them; the local user, an administrator, when absent.
    #[must_use]
    pub fn user(mut self, user_id: UserId, principal: Principal) -> Self {
        self.user = Some((user_id, principal));
        self
    }

    /// Opens the installation. Runs that a process which died has begun go on.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(self) -> Result<DeerFlowClient, BuildError> {
        let config = match self.config {
            Some(config) => config,
            None => Arc::new(tokio::task::spawn_blocking(move || load(self.file, self.home, self.set)).await??),
        };
        let sandbox = match self.sandbox {
            Some(sandbox) => sandbox,
            None if !children::answers() && starts_this_program(&config) => return Err(BuildError::Children),
            None => assembly::sandbox(&config).await.map_err(AssemblyError::from)?,
        };
        let converter = if children::answers() { assembly::converter()? } else { Converter::default() };
        let models = self.chat_models.into_iter().fold(assembly::models(&config), ModelCatalogue::with_model);
        let lock = WorkerLock::acquire(config.home())?;
        let store = assembly::open_store(&config).await.map_err(AssemblyError::from)?;
        let harness = assembly::harness_with(config.clone(), &store, models, sandbox, converter);
        if let Some(name) = &self.model
            && !harness.models().entries().iter().any(|entry| entry.name == *name)
        {
            let known = harness.models().entries().into_iter().map(|entry| entry.name).collect();
            return Err(BuildError::Model { name: name.clone(), known });
        }
        let settings = (*config.section::<RunsConfig>()).clone();
        let runs = Runs::new(store.clone(), harness.clone(), Bridge::default(), lock, settings);
        runs.recover().await?;
        let (user_id, principal) = self.user.unwrap_or_else(|| {
            (UserId::local(), Principal { user_role: Some("admin".to_owned()), ..Principal::default() })
        });
        let service = Service { config, store, harness, runs };
        Ok(DeerFlowClient { service, caller: Caller { user_id, principal }, model: self.model })
    }
}

fn load(file: Option<PathBuf>, home: Option<PathBuf>, set: Vec<(String, String)>) -> Result<Config, ConfigError> {
    let variables = std::env::vars_os();
    let home = home.map(|home| (deerflow_config::HOME_VARIABLE.into(), home.into_os_string()));
    let mut loader = Loader::new(assembly::sections().with::<RunsConfig>()).env_os(variables.chain(home));
    if let Ok(cwd) = std::env::current_dir() {
        loader = loader.cwd(cwd);
    }
    if let Some(file) = file {
        loader = loader.file(file);
    }
    set.into_iter().fold(loader, |loader, (path, value)| loader.set(path, value)).load()
}

fn starts_this_program(config: &Config) -> bool {
    matches!(config.section::<SandboxConfig>().provider_kind(), Ok(ProviderKind::Isolated))
}
