//! The store as its callers see it: through the ports, on real files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and may say what it measured")]

mod accounts;
mod api_keys;
mod archive;
mod branches;
mod concurrency;
mod crash;
mod faults;
mod feedback;
mod forks;
mod growth;
mod history;
mod inputs;
mod items;
mod journal;
mod modes;
mod replay;
mod retention;
mod runs;
mod search;
mod support;
mod threads;
mod upgrade;
