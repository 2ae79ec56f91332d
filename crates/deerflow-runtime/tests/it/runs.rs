//! Runs as a service.

mod admission;
mod bench;
mod cancel;
mod checkpoints;
mod delivery;
mod ownership;
mod queue;
mod webhook;
