//! The sandbox against the real kernel: what commands can do, and every way out that we know of.
//!
//! As root, [`user`] runs all of this a second time as an ordinary user.

mod commands;
mod escape;
mod host;
mod limits;
mod processes;
mod support;
mod user;
