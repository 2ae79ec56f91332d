//! Loads files as a program does: a folder, an environment, a registry.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod errors;
mod example;
mod fixture;
mod layers;
mod properties;
mod schema;
mod secrets;
