//! A program's sections and a folder to load from.

use deerflow_config::{Checked, Config, ConfigError, Loader, ModelsSection, Registry, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Names a thread after its first exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TitleConfig {
    /// Whether titles are made at all.
    pub(crate) enabled: bool,
    /// Longest title, in words.
    #[schemars(range(min = 1, max = 20), extend("x-aliases" = ["word_limit"]))]
    pub(crate) max_words: u32,
    /// Longest title, in characters.
    pub(crate) max_chars: u32,
    /// The model to ask.
    pub(crate) model_name: Option<String>,
}

impl Default for TitleConfig {
    fn default() -> Self {
        Self { enabled: true, max_words: 6, max_chars: 60, model_name: None }
    }
}

impl Section for TitleConfig {
    const KEY: &'static str = "title";
}

/// How much is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// Everything.
    Debug,
    /// One line a run.
    #[default]
    Info,
    /// What is degraded.
    #[serde(alias = "warn")]
    #[schemars(extend("x-aliases" = ["warn"]))]
    Warning,
}

impl Section for LogLevel {
    const KEY: &'static str = "log_level";
    const RESTART_ONLY: bool = true;
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ToolConfig {
    /// The tool's name.
    pub(crate) name: String,
    /// Its group.
    #[serde(default)]
    pub(crate) group: String,
    /// Where it comes from.
    #[serde(rename = "use")]
    pub(crate) source: String,
    /// Settings of the tool.
    #[serde(flatten)]
    pub(crate) settings: Map<String, Value>,
}

/// All tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ToolsConfig(pub(crate) Vec<ToolConfig>);

impl Section for ToolsConfig {
    const KEY: &'static str = "tools";
}

/// Where things are stored. Drops what it does not know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DatabaseConfig {
    /// `sqlite` or `postgres`.
    pub(crate) backend: String,
    /// The folder of the database file.
    pub(crate) sqlite_dir: Option<String>,
    /// The server.
    pub(crate) postgres_url: Option<String>,
    /// Connections.
    pub(crate) pool_size: Option<u8>,
}

impl Section for DatabaseConfig {
    const KEY: &'static str = "database";
    const RESTART_ONLY: bool = true;
}

pub(crate) fn registry() -> Registry {
    Registry::new()
        .with::<ModelsSection>()
        .with::<TitleConfig>()
        .with::<LogLevel>()
        .with::<ToolsConfig>()
        .with::<DatabaseConfig>()
        .known_but_absent("channels", "chat platforms are not built yet")
}

/// A folder with or without a `config.yaml`, and an environment.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) env: Vec<(String, String)>,
}

impl Fixture {
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home").display().to_string();
        Self { dir, env: vec![("DEER_FLOW_HOME".to_owned(), home)] }
    }

    pub(crate) fn with(text: impl AsRef<[u8]>) -> Self {
        let fixture = Self::empty();
        fixture.write("config.yaml", text);
        fixture
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn loader(&self) -> Loader {
        Loader::new(registry()).env(self.env.clone()).cwd(self.dir.path())
    }

    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        self.loader().load()
    }

    pub(crate) fn check(&self) -> Checked {
        self.loader().check()
    }

    /// What `config check` prints, without colour.
    pub(crate) fn rendered(&self) -> String {
        let rendered = deerflow_config::render(&self.check().diagnostics, /*color*/ false, /*width*/ 120);
        let rendered = rendered.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        rendered.replace(&self.dir.path().display().to_string(), "<dir>")
    }

    /// The plain lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.check().diagnostics.iter().map(ToString::to_string).collect()
    }
}
