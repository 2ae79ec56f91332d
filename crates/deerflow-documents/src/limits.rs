//! What one conversion and one upload request may cost.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Caps on one conversion. Every one is checked while working, not from sizes a file declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest input, in bytes (default 50 MiB).
    pub max_input_bytes: u64,
    /// Longest Markdown, in characters (default 5 million); the rest is cut with a notice.
    pub max_output_chars: usize,
    /// Most bytes a compressed document may unpack to in all (default 256 MiB).
    pub max_inflated_bytes: u64,
    /// Most entries in a zip-based document (default 10 000).
    pub max_entries: usize,
    /// Address space of a conversion worker process, in bytes (default 2 GiB); not applied in-process.
    pub max_memory_bytes: u64,
    /// Longest time for one document, in whole seconds on the wire (default 60 s).
    #[serde(rename = "timeout_secs", with = "whole_seconds")]
    #[schemars(with = "u64")]
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_input_bytes: 50 << 20,
            max_output_chars: 5_000_000,
            max_inflated_bytes: 256 << 20,
            max_entries: 10_000,
            max_memory_bytes: 2 << 30,
            timeout: Duration::from_secs(60),
        }
    }
}

/// Caps on one upload request. Read from a file that the original also reads, so keys of its own are let pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UploadLimits {
    /// Most files in one request (default 10). Once called `max_file_count`.
    #[serde(alias = "max_file_count")]
    pub max_files: usize,
    /// Largest single file, in bytes (default 50 MiB). Once called `max_single_file_size`.
    #[serde(alias = "max_single_file_size")]
    pub max_file_size: u64,
    /// Largest sum over one request, in bytes (default 100 MiB).
    pub max_total_size: u64,
}

impl deerflow_config::Section for UploadLimits {
    const KEY: &'static str = "uploads";
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self { max_files: 10, max_file_size: 50 << 20, max_total_size: 100 << 20 }
    }
}

mod whole_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}
