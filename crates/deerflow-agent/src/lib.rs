//! The kernel: the loop around model and tools, the middleware trait, and the chain that ties them together.
//!
//! ```text
//! before_agent* → loop { before_model* → wrap_model(model) → after_model* → tools ‖ } → after_agent*
//! ```
//!
//! Read it in this order: `agent.rs` (what an agent is made of), `run.rs` (the loop), `model_turn.rs` and `tool_batch.rs`
//! (its two kinds of step), `middleware.rs` (where everything else hooks in).
//!
//! **Invariant:** this crate performs no I/O of its own. It reaches the world through the model, the tools and the step
//! log it was given, and [`deerflow_core::ports::StepLog::commit`] is its only durable write.

pub mod agent;
pub mod context;
pub mod ephemeral;
pub mod middleware;
mod model_turn;
mod run;
mod side_call;
mod stops;
mod tool_batch;

pub use agent::{Agent, AgentBuilder, BuildError, DEFAULT_MAX_TURNS};
pub use context::RunContext;
pub use ephemeral::EphemeralLog;
pub use middleware::{Flow, Hook, JumpTarget, Middleware, ModelNext, ToolNext, ToolOutcome, ToolRequest};
pub use run::{Outcome, Start};
pub use side_call::side_call;
pub use stops::StopPoints;

#[cfg(test)]
mod tests;
