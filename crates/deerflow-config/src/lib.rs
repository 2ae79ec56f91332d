//! Loads `config.yaml` in layers, with errors that name the place and the nearest key.
//!
//! **Invariant:** this crate reads one file and nothing else of the world. The environment, the working directory and the
//! flags are handed in ([`Loader`]); the only path it opens is the one it reports as [`Config::source`]. It knows no
//! section's meaning except `models`: every other section is a struct of the crate that uses it, found through [`Section`].
//!
//! Layers, later ones win:
//!
//! 1. each section's `Default`;
//! 2. the YAML file, read with YAML 1.1 scalars, anchors and merges;
//! 3. `$NAME` values in it, replaced whole by that variable (`$$` writes a literal `$`);
//! 4. `DEER_FLOW__SECTION__KEY=value` variables, then [`Loader::set`] (flags). These are not interpolated.
//!
//! A section is a plain struct. Its JSON Schema does the checking, so that all problems of a file are found in one pass and
//! each has its line and column:
//!
//! ```
//! use deerflow_config::{Loader, Registry, Section};
//!
//! /// Names a thread after its first exchange.
//! #[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! #[serde(default, deny_unknown_fields)]
//! pub struct TitleConfig {
//!     /// Whether titles are made at all.
//!     pub enabled: bool,
//!     /// Longest title, in words.
//!     #[schemars(range(min = 1, max = 20), extend("x-aliases" = ["word_limit"]))]
//!     pub max_words: u32,
//! }
//! impl Default for TitleConfig {
//!     fn default() -> Self {
//!         Self { enabled: true, max_words: 6 }
//!     }
//! }
//! impl Section for TitleConfig {
//!     const KEY: &'static str = "title";
//! }
//!
//! let registry = Registry::new().with::<TitleConfig>();
//! let config = Loader::new(registry).env([("HOME".to_owned(), "/home/ada".to_owned())]).cwd("/nowhere").load()?;
//! assert_eq!(config.section::<TitleConfig>().max_words, 6);
//! # Ok::<(), deerflow_config::ConfigError>(())
//! ```
//!
//! What the schema of a section says, the loader does:
//!
//! | in the struct | effect |
//! |---|---|
//! | `deny_unknown_fields` | an unknown key is an error naming the nearest one |
//! | neither that nor a flattened map | an unknown key is a warning: it is ignored |
//! | a flattened map of extras | unknown keys are kept; a near miss is a warning |
//! | `extend("x-aliases" = [..])` on a field | the other spelling is renamed before reading |
//! | `extend("x-known-extras" = [..])` on a struct | extras that are well known and not remarked on |
//! | `range`, enums, `required` | checked with position |
//!
//! Text from `$NAME` and from overrides is turned into the number or boolean its field wants. A null counts as absent.

mod config;
mod diagnostic;
mod file;
mod home;
mod interpolate;
mod loader;
mod models;
mod nearest;
mod node;
mod overrides;
mod path;
mod providers;
mod redact;
mod registry;
mod reporter;
mod secret;
mod shape;
mod shape_check;
mod tool_call_format;
mod yaml;

pub use config::Config;
pub use diagnostic::{ConfigError, Diagnostic, Severity, render};
pub use home::{HomeError, home_dir};
pub use loader::{CONFIG_PATH_VARIABLE, Checked, Env, HOME_VARIABLE, Loader, PROJECT_ROOT_VARIABLE};
pub use models::{Extras, ModelProfile, ModelsSection, Pricing, fallbacks_of};
pub use nearest::nearest;
pub use overrides::OVERRIDE_PREFIX;
pub use path::{KeyPath, Segment};
pub use providers::{Provider, ProviderError, ProviderKind, provider_names, resolve_provider};
pub use redact::{REDACTED, is_sensitive_key, redact_value};
pub use registry::{Problems, Registry, SCHEMA_ID, Section};
pub use secret::Secret;
pub use tool_call_format::ToolCallFormat;
