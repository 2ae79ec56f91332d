//! The `database` section, and what the store needs of it.

use deerflow_config::Section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Section `database`: where threads, runs and their history are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DatabaseConfig {
    /// Kind of database. This build knows `sqlite`.
    pub backend: Backend,
    /// Folder of the SQLite file `deerflow.db`; below the home folder unless absolute.
    pub sqlite_dir: PathBuf,
    /// How threads are marked as stored. A thread with the other mark is refused until `deerflow threads migrate` changes it.
    /// The format is the same for both.
    pub checkpoint_channel_mode: ChannelMode,
    /// How often states are written out in full.
    pub checkpoint_delta: CheckpointDelta,
    /// What an acknowledged write survives: the death of the process, or a power cut as well (slower).
    pub durability: Durability,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            backend: Backend::Sqlite,
            sqlite_dir: PathBuf::from("data"),
            checkpoint_channel_mode: ChannelMode::Full,
            checkpoint_delta: CheckpointDelta::default(),
            durability: Durability::Process,
        }
    }
}

impl Section for DatabaseConfig {
    const KEY: &'static str = "database";
    const RESTART_ONLY: bool = true;
}

impl DatabaseConfig {
    /// The database file, given the home folder.
    #[must_use]
    pub fn path(&self, home: &Path) -> PathBuf {
        home.join(&self.sqlite_dir).join("deerflow.db")
    }
    /// Options for opening it.
    #[must_use]
    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            durability: self.durability,
            mode: self.checkpoint_channel_mode,
            snapshot_frequency: self.checkpoint_delta.snapshot_frequency,
            ..StoreOptions::default()
        }
    }
}

/// Kinds of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// One file on this machine.
    Sqlite,
}

/// Marker of a thread's storage mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelMode {
    /// `full`
    #[default]
    Full,
    /// `delta`
    Delta,
}

impl ChannelMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Delta => "delta",
        }
    }
}

/// Key `checkpoint_delta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckpointDelta {
    /// Steps that lie at least between two snapshots of a thread: an upper bound on how often they are written.
    #[schemars(range(min = 1))]
    pub snapshot_frequency: u32,
}

impl Default for CheckpointDelta {
    fn default() -> Self {
        Self { snapshot_frequency: 10 }
    }
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The death of the process, `kill -9` included.
    #[default]
    Process,
    /// A power cut as well: every commit waits for the disk.
    Power,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Mark of new threads, and the only one whose states are read and written.
    pub mode: ChannelMode,
    /// Steps that lie at least between two snapshots.
    pub snapshot_frequency: u32,
    /// Connections for reading.
    pub readers: u32,
    /// Idle time after which the write-ahead log is cut to nothing.
    pub idle: Duration,
    /// Bytes of stored content whose states are kept in memory, so that the next run of a thread starts at once.
    pub cache_bytes: usize,
    /// Largest size of the database file in bytes, the write-ahead log not counted; none when absent.
    pub max_bytes: Option<u64>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            mode: ChannelMode::Full,
            snapshot_frequency: 10,
            readers: 4,
            idle: Duration::from_secs(2),
            cache_bytes: 8 << 20,
            max_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unknown_backend_or_mode_is_refused_by_name() {
        let error = serde_json::from_value::<DatabaseConfig>(json!({"backend": "postgres"})).unwrap_err().to_string();
        assert!(error.contains("postgres") && error.contains("sqlite"), "{error}");
        let error = serde_json::from_value::<DatabaseConfig>(json!({"checkpoint_channel_mode": "half"})).unwrap_err();
        assert!(error.to_string().contains("half"), "{error}");
    }

    #[test]
    fn the_file_lies_below_home_unless_absolute() {
        let mut config = DatabaseConfig::default();
        assert_eq!(config.path(Path::new("/h")), Path::new("/h/data/deerflow.db"));
        config.sqlite_dir = "/srv/db".into();
        assert_eq!(config.path(Path::new("/h")), Path::new("/srv/db/deerflow.db"));
        let read: DatabaseConfig =
            serde_json::from_value(json!({"durability": "power", "checkpoint_delta": {"snapshot_frequency": 7}}))
                .unwrap();
        assert_eq!(read.options().durability, Durability::Power);
        assert_eq!(read.options().snapshot_frequency, 7);
    }
}
