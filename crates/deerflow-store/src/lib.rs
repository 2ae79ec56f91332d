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
//! `full` and `delta` ([`ChannelMode`]) are markers over this one format.
//!
//! # Maintenance
//!
//! The write-ahead log is bounded: SQLite copies it back every 512 pages, and after two idle seconds it is copied back
//! and cut to nothing. Space of deleted threads is reused; [`SqliteStore::compact`] hands it back to the file system.

mod cache;
mod config;
mod error;
mod files;
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
