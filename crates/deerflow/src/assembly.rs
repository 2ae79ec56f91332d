//! Puts the parts of an installation together: configuration, store, sandbox, tools, harness.
//!
//! One place for everybody who needs all of them: the command line, the gateway's tests, a program that embeds the whole.

use deerflow_config::{Config, ModelsSection, Registry};
use deerflow_core::StoreError;
use deerflow_documents::{Converter, UploadLimits, Worker};
use deerflow_harness::middleware::{
    AuthorizationConfig, CircuitBreakerConfig, GuardrailsConfig, HumanInTheLoopConfig, LlmCallConfig,
    LoopDetectionConfig, PiiRedactionConfig, ReadBeforeWriteConfig, SafetyFinishReasonConfig, SummarizationConfig,
    TaskContinuityConfig, TitleConfig, TokenBudgetConfig, TokenUsageConfig, ToolArtifactsConfig, ToolOutputConfig,
    ToolProgressConfig, VerificationConfig,
};
use deerflow_harness::read_conversation::ReadConversationConfig;
use deerflow_harness::{Harness, HarnessPorts, ModelCatalogue, RunLimitsConfig};
use deerflow_sandbox::{Launcher, SandboxConfig, SandboxError, SandboxProvider};
use deerflow_store::{DatabaseConfig, SqliteStore};
use deerflow_tools::{BuiltinTools, ToolLimits};
use std::sync::Arc;

/// An installation cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sandbox that the configuration asks for is not to be had.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Commands and documents are run by child processes of the running program, and it cannot be found.
    #[error("cannot find this program: {0}")]
    Program(std::io::Error),
}

/// The sections of `config.yaml` that the crates below the edge read.
#[must_use]
pub fn sections() -> Registry {
    Registry::new()
        .with::<ModelsSection>()
        .with::<SandboxConfig>()
        .with::<DatabaseConfig>()
        .with::<UploadLimits>()
        .with::<TitleConfig>()
        .with::<ToolOutputConfig>()
        .with::<LoopDetectionConfig>()
        .with::<LlmCallConfig>()
        .with::<CircuitBreakerConfig>()
        .with::<SafetyFinishReasonConfig>()
        .with::<RunLimitsConfig>()
        .with::<ReadConversationConfig>()
        .with::<VerificationConfig>()
        .with::<ToolArtifactsConfig>()
        .with::<ReadBeforeWriteConfig>()
        .with::<ToolProgressConfig>()
        .with::<HumanInTheLoopConfig>()
        .with::<AuthorizationConfig>()
        .with::<GuardrailsConfig>()
        .with::<PiiRedactionConfig>()
        .with::<SummarizationConfig>()
        .with::<TaskContinuityConfig>()
        .with::<TokenUsageConfig>()
        .with::<TokenBudgetConfig>()
}

/// Opens the database.
///
/// # Errors
/// When it cannot be opened, is of a newer version, or is used with another channel mode.
pub async fn open_store(config: &Config) -> Result<Arc<SqliteStore>, StoreError> {
    let database = config.section::<DatabaseConfig>();
    Ok(Arc::new(SqliteStore::open(&database.path(config.home()), database.options()).await?))
}

/// The models that configuration and environment give.
#[must_use]
pub fn models(config: &Config) -> ModelCatalogue {
    ModelCatalogue::new(
        &config.section::<ModelsSection>(),
        Arc::new(|name| std::env::var(name).ok().filter(|v| !v.is_empty())),
    )
}

/// The sandbox that the configuration names. The running program must answer to
/// [`is_launcher_invocation`](deerflow_sandbox::is_launcher_invocation) for the isolated one.
///
/// # Errors
/// When it is refused by the kernel or by the configuration.
pub async fn sandbox(config: &Config) -> Result<Arc<dyn SandboxProvider>, SandboxError> {
    let section = (*config.section::<SandboxConfig>()).clone();
    deerflow_sandbox::create_provider(config.home(), section, Launcher::current()).await
}

/// Converts documents in a child process, so that a hostile one cannot take this one down.
///
/// # Errors
/// When the running program cannot be found.
pub fn converter() -> Result<Converter, AssemblyError> {
    let program = std::env::current_exe().map_err(AssemblyError::Program)?;
    Ok(Converter { worker: Some(Worker { program }), ..Converter::default() })
}

/// The harness over all of that.
///
/// # Errors
/// When the sandbox is not to be had.
pub async fn harness(config: Arc<Config>, store: &Arc<SqliteStore>) -> Result<Arc<Harness>, AssemblyError> {
    let sandbox = sandbox(&config).await?;
    let models = models(&config);
    Ok(harness_with(config, store, models, sandbox, converter()?))
}

/// The harness over these models and this sandbox, with this converter of documents.
#[must_use]
pub fn harness_with(
    config: Arc<Config>,
    store: &Arc<SqliteStore>,
    models: ModelCatalogue,
    sandbox: Arc<dyn SandboxProvider>,
    converter: Converter,
) -> Arc<Harness> {
    let tools = BuiltinTools::new(sandbox.clone(), ToolLimits::from(&*config.section::<SandboxConfig>()), converter);
    let time_zone = std::env::var("DEER_FLOW_DATE_TIMEZONE").ok().filter(|v| !v.is_empty());
    Arc::new(Harness::new(config, models, sandbox, tools, time_zone).with_ports(HarnessPorts::of(store)))
}
