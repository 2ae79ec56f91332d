//! The server over a real store, a real socket and a scripted model.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod alike;
mod artifacts;
mod assist;
mod auth;
mod basics;
mod browser;
mod foreign;
mod item_store;
mod runs;
mod support;
mod thread_goal;
mod thread_life;
mod thread_state;
mod threads;
mod uploads;
