//! The kernel against a scripted model and tools that count.

mod crash;
mod decisions;
mod fixtures;
mod flow;
mod interrupt;
mod tools;
