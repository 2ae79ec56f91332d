//! The sandbox against the real kernel: what commands can do, and every way out that we know of.
//!
//! As root, [`user`] runs all of this a second time as an ordinary user.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests: a failure must be loud")]

mod bwrap;
mod commands;
mod escape;
mod host;
mod kept;
mod landlock;
mod limits;
mod network;
mod processes;
mod support;
mod user;
