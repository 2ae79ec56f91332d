//! The runtime over a real store, a real harness and a scripted model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runs;
mod streams;
