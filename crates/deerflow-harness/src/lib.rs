//! Batteries for the kernel: the built-in middlewares, the prompts, and the factory of the lead agent.
//!
//! **Invariant:** a middleware is one file under [`middleware`], named after itself, with its config section, its algorithm
//! and its tests. Their order is the one literal list in [`chain`].

pub mod chain;
pub mod custom_agent;
pub mod lead_agent;
pub mod middleware;
pub mod models;
pub mod prompt;

pub use chain::{Place, lead_chain};
pub use custom_agent::{CustomAgent, CustomAgentError};
pub use lead_agent::{Harness, LeadAgent, LeadError, LeadOptions, RunLimitsConfig};
pub use models::{ModelCatalogue, ModelChoiceError, ModelEntry};
