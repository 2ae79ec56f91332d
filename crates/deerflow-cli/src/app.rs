//! Wires configuration, store, sandbox, tools and runtime together.

use crate::failure::Failure;
use deerflow_config::{Config, Loader, ModelsSection, Registry};
use deerflow_core::UserId;
use deerflow_documents::{Converter, UploadLimits, Worker};
use deerflow_harness::middleware::{
    AuthorizationConfig, CircuitBreakerConfig, GuardrailsConfig, HumanInTheLoopConfig, LlmCallConfig,
    LoopDetectionConfig, PiiRedactionConfig, ReadBeforeWriteConfig, SafetyFinishReasonConfig, SummarizationConfig,
    TaskContinuityConfig, TitleConfig, TokenBudgetConfig, TokenUsageConfig, ToolArtifactsConfig, ToolOutputConfig,
    ToolProgressConfig, VerificationConfig,
};
use deerflow_harness::read_conversation::ReadConversationConfig;
use deerflow_harness::{Harness, HarnessPorts, ModelCatalogue, RunLimitsConfig};
use deerflow_runtime::{RunManager, WorkerLock};
use deerflow_sandbox::{Launcher, SandboxConfig, SandboxProvider};
use deerflow_store::{DatabaseConfig, SqliteStore};
use deerflow_tools::{BuiltinTools, ToolLimits};
use std::path::PathBuf;
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
        ("auth", "the server"),
        ("logging", "the server"),
        ("log_level", "the server; set DEER_FLOW_LOG instead"),
        ("tools", "a choice of tools; all built-in tools are offered"),
        ("tool_groups", "a choice of tools; all built-in tools are offered"),
        ("config_version", "versions of the file"),
    ];
    let registry = Registry::new()
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
        .with::<TokenBudgetConfig>();
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
    let database = config.section::<DatabaseConfig>();
    let store = SqliteStore::open(&database.path(config.home()), database.options()).await.map_err(Failure::usage)?;
    Ok(Arc::new(store))
}

/// The models that configuration and environment give.
pub(crate) fn models(config: &Config) -> ModelCatalogue {
    ModelCatalogue::new(
        &config.section::<ModelsSection>(),
        Arc::new(|name| std::env::var(name).ok().filter(|v| !v.is_empty())),
    )
}

/// The sandbox that the configuration names.
pub(crate) async fn sandbox(config: &Config) -> Result<Arc<dyn SandboxProvider>, Failure> {
    let section = (*config.section::<SandboxConfig>()).clone();
    deerflow_sandbox::create_provider(config.home(), section, Launcher::current()).await.map_err(Failure::usage)
}

/// The harness over all of that.
pub(crate) async fn harness(config: Arc<Config>, store: &Arc<SqliteStore>) -> Result<Arc<Harness>, Failure> {
    let sandbox = sandbox(&config).await?;
    let models = models(&config);
    let tools = BuiltinTools::new(sandbox.clone(), ToolLimits::from(&*config.section::<SandboxConfig>()), converter()?);
    let time_zone = std::env::var("DEER_FLOW_DATE_TIMEZONE").ok().filter(|v| !v.is_empty());
    Ok(Arc::new(Harness::new(config, models, sandbox, tools, time_zone).with_ports(HarnessPorts::of(store))))
}

/// Converts documents in a child process, so that a hostile one cannot take this one down.
pub(crate) fn converter() -> Result<Converter, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::run(format!("cannot find this program: {e}")))?;
    Ok(Converter { worker: Some(Worker { program }), ..Converter::default() })
}

/// Everything a run needs.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) harness: Arc<Harness>,
    pub(crate) runs: RunManager<SqliteStore>,
    pub(crate) user: UserId,
}

impl App {
    pub(crate) async fn open(file: Option<PathBuf>) -> Result<Self, Failure> {
        let config = load_config(file)?;
        let lock = WorkerLock::acquire(config.home()).map_err(Failure::usage)?;
        let store = open_store(&config).await?;
        let harness = harness(config.clone(), &store).await?;
        let runs = RunManager::new(store.clone(), harness.clone(), lock);
        Ok(Self { config, store, harness, runs, user: UserId::local() })
    }
}
