//! The `tool_output:` section of the configuration.

use deerflow_config::{Problems, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much of a tool's output the model sees. Sizes are in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOutputConfig {
    /// Whether outputs are limited at all.
    pub enabled: bool,
    /// Longer outputs are saved to a file and replaced by a preview; 0 saves none. What `fallback_max_chars` would cut is
    /// saved too.
    pub externalize_min_chars: usize,
    /// Start of the output that a preview shows.
    pub preview_head_chars: usize,
    /// End of the output that a preview shows.
    pub preview_tail_chars: usize,
    /// Longest output that was not saved, and longest output of an earlier turn; 0 is no limit.
    pub fallback_max_chars: usize,
    /// Start that is kept of an output that is cut.
    pub fallback_head_chars: usize,
    /// End that is kept of an output that is cut.
    pub fallback_tail_chars: usize,
    /// Directory of the saved outputs, beneath the thread's outputs: one name.
    #[schemars(length(min = 1, max = 255))]
    pub storage_subdir: String,
    /// Tools that are never limited here. Those that read saved outputs back belong to them.
    pub exempt_tools: Vec<String>,
    /// Other values of `externalize_min_chars` for certain tools; 0 saves none of that tool's.
    pub tool_overrides: BTreeMap<String, usize>,
    /// Leave the content of a `write_file` call out of requests once the file was read or changed later on. The stored
    /// conversation keeps it.
    pub elide_superseded_writes: bool,
    /// Only contents at least this long are left out.
    pub superseded_write_min_chars: usize,
    /// The newest writes that always stay visible, so that the model can say what it just wrote.
    pub keep_recent_writes: usize,
}

impl Default for ToolOutputConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            externalize_min_chars: 12_000,
            preview_head_chars: 2000,
            preview_tail_chars: 1000,
            fallback_max_chars: 30_000,
            fallback_head_chars: 8000,
            fallback_tail_chars: 3000,
            storage_subdir: ".tool-results".to_owned(),
            exempt_tools: vec!["read_file".to_owned(), "read_file_tool".to_owned()],
            tool_overrides: BTreeMap::new(),
            elide_superseded_writes: true,
            superseded_write_min_chars: 2000,
            keep_recent_writes: 1,
        }
    }
}

impl Section for ToolOutputConfig {
    const KEY: &'static str = "tool_output";

    fn validate(&self, problems: &mut Problems) {
        if !is_one_name(&self.storage_subdir) {
            let message = format!("`{}` is not the name of a directory", self.storage_subdir.escape_debug());
            let help = "use one name without separators, such as `.tool-results`";
            problems.error("storage_subdir", message, Some(help.to_owned()));
        }
    }
}

impl ToolOutputConfig {
    /// Outputs of `tool` longer than this are saved; `None` saves none. Nothing that could be saved is cut unsaved, so the
    /// limit for cutting is one for saving, too.
    pub(super) fn save_over(&self, tool: &str) -> Option<usize> {
        match self.tool_overrides.get(tool).copied().unwrap_or(self.externalize_min_chars) {
            0 => None,
            threshold if self.fallback_max_chars == 0 => Some(threshold),
            threshold => Some(threshold.min(self.fallback_max_chars)),
        }
    }
}

fn is_one_name(name: &str) -> bool {
    let clean = |c: char| !matches!(c, '/' | '\\') && !c.is_control();
    !name.trim().is_empty() && name.len() <= 255 && name != "." && name != ".." && name.chars().all(clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_config::{Loader, Registry};
    use pretty_assertions::assert_eq;

    fn load(key: &str, value: &str) -> Result<ToolOutputConfig, String> {
        let loader = Loader::new(Registry::new().with::<ToolOutputConfig>()).env([]).cwd("/nowhere");
        let loader = loader.env([("HOME".to_owned(), "/nowhere".to_owned())]).set(key, value);
        loader.load().map(|c| c.section::<ToolOutputConfig>().as_ref().clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_directory_is_one_name() {
        assert_eq!(load("tool_output.storage_subdir", ".results").unwrap().storage_subdir, ".results");
        for bad in ["..", ".", "a/b", "/abs", "a\\b", " "] {
            assert!(load("tool_output.storage_subdir", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn thresholds_come_from_the_tool_then_the_section_and_never_exceed_the_cut() {
        let config = ToolOutputConfig {
            tool_overrides: BTreeMap::from([("off".into(), 0), ("low".into(), 50), ("high".into(), 90_000)]),
            ..ToolOutputConfig::default()
        };
        let of = |tool| config.save_over(tool);
        assert_eq!([of("any"), of("low"), of("off"), of("high")], [Some(12_000), Some(50), None, Some(30_000)]);
        let uncut = ToolOutputConfig { fallback_max_chars: 0, ..config.clone() };
        assert_eq!(uncut.save_over("high"), Some(90_000));
    }
}
