//! End to end: the real binary, the real sandbox, the real database; only the language model is scripted.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test helpers fail by panicking")]

mod approvals;
mod bad_input;
mod config;
mod cost;
mod crash;
mod decisions;
mod goal;
mod handover;
mod models;
mod offline;
mod recall;
mod serve;
mod steer;
mod support;
mod terminal;
mod threads;
mod tools;
mod upkeep;
