//! How much tools take and show.

use deerflow_sandbox::SandboxConfig;
use std::time::Duration;

/// Limits of the built-in tools. A limit of 0 is none, except for the search caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Characters of command output shown.
    pub bash_output_max_chars: usize,
    /// Characters of a file shown.
    pub read_file_output_max_chars: usize,
    /// Characters of a listing shown.
    pub ls_output_max_chars: usize,
    /// How long a command may run.
    pub bash_command_timeout: Duration,
    /// Bytes of `write_file` content in one call that does not append.
    pub write_file_max_bytes: usize,
    /// Most paths that `glob` gives, whatever is asked for; 1 to 1000.
    pub glob_max_results: usize,
    /// Most lines that `grep` gives, whatever is asked for; 1 to 500.
    pub grep_max_results: usize,
    /// Bytes of an image that `view_image` takes.
    pub view_image_max_bytes: u64,
    /// How long a write waits for another write of the same file.
    pub lock_timeout: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self::from(&SandboxConfig::default())
    }
}

impl From<&SandboxConfig> for ToolLimits {
    fn from(config: &SandboxConfig) -> Self {
        Self {
            bash_output_max_chars: config.bash_output_max_chars,
            read_file_output_max_chars: config.read_file_output_max_chars,
            ls_output_max_chars: config.ls_output_max_chars,
            bash_command_timeout: config.command_timeout(),
            write_file_max_bytes: 80 * 1024,
            glob_max_results: 1000,
            grep_max_results: 500,
            view_image_max_bytes: 20 << 20,
            lock_timeout: Duration::from_secs(30),
        }
    }
}

/// What to ask a search for: the request if it is positive, else the default, never more than the caps.
pub(crate) fn search_cap(requested: Option<i64>, default: usize, configured: usize, hard: usize) -> usize {
    let wanted = requested.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0).unwrap_or(default);
    wanted.min(configured.max(1)).min(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_not_positive_mean_the_default_and_caps_hold() {
        assert_eq!(search_cap(None, 200, 1000, 1000), 200);
        assert_eq!(search_cap(Some(0), 200, 1000, 1000), 200);
        assert_eq!(search_cap(Some(-5), 200, 50, 1000), 50);
        assert_eq!(search_cap(Some(7), 200, 1000, 1000), 7);
        assert_eq!(search_cap(Some(99_999), 200, 5000, 1000), 1000);
    }
}
