//! SQLite implementation of the storage ports.
//!
//! **Invariant:** only this crate knows SQL. Every write of a process goes through one task that owns one connection, and a
//! write is acknowledged after its `COMMIT`: what a caller was told is durable survives the death of the process at any
//! moment (and a power cut with [`Durability::Power`]).
//!
//! # How history is kept
//!
//! A step is one row holding its updates. Messages and values above 512 bytes are stored once per thread in `blobs`, under
//! their hash; updates, journal rows, run inputs and snapshots refer to them. A state is rebuilt from the nearest snapshot
//! at or before it, plus the updates since.
//!
//! A snapshot (a list of 16-byte references and the other channels) is written when the log since the last one outweighs
//! it, rows and indexes counted. Each is therefore paid for by the log in front of it: all snapshots together are never
//! larger than the log, a load never replays more than a bounded multiple of what it returns, and the cost of a step depends
//! on what it changed only. Nothing needs to be pruned for that, so every checkpoint stays readable at the same price.
//!
//! A commit may stand on any checkpoint ([`branch`](deerflow_core::ports::StepCommit::branch)). It is a row like any other,
//! the newest, and becomes the head; where it leaves the row before it, `branches` says on which one it stands. A load
//! follows these bases down to the nearest snapshot. A branch inherits the log on the way to its parent, so that it costs
//! one snapshot at most (16 bytes a message) that its own log has not paid for.
//!
//! A fork copies the rows of a history with what they refer to, and keeps the ids of its checkpoints: they are unique per
//! lineage.
//!
//! `full` and `delta` ([`ChannelMode`]) are markers over this one format. A process works in one of them, and refuses the
//! state of a thread that is marked for another until [`SqliteStore::migrate_thread`] marks it anew.
//!
//! # What else is kept
//!
//! Inputs that users queue for a run are acknowledged in the transaction of the step that shows them. Archived text is found
//! through an FTS5 index in which every Chinese, Japanese and Korean character is a word, and a query a list of phrases.
//!
//! # Maintenance
//!
//! The write-ahead log is bounded: SQLite copies it back every 512 pages, and after two idle seconds it is copied back
//! and cut to nothing. Space of deleted threads is reused; [`SqliteStore::compact`] hands it back to the file system. Nothing is
//! deleted for its age unless [`SqliteStore::prune`] is asked to.

mod cache;
mod config;
mod error;
mod files;
mod item_filter;
mod names;
mod pack;
mod path;
mod read;
mod snapshot;
mod store;
mod words;
mod write;
mod writer;

pub use config::{Backend, ChannelMode, CheckpointDelta, DatabaseConfig, Durability, StoreOptions};
pub use store::{Pruned, SqliteStore};
