//! Built-in tools.

pub mod neutralise;
