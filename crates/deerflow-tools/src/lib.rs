//! Built-in tools.

mod args;
pub mod clarification;
mod locks;
pub mod neutralise;
mod schema;
