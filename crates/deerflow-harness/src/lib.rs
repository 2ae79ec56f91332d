//! Batteries for the kernel: the built-in middlewares, the prompts, and the factory of the lead agent.
//!
//! **Invariant:** a middleware is one file under [`middleware`], named after itself, with its config section, its algorithm
//! and its tests. Their order is the one literal list in [`order`].

pub mod chain;
pub mod custom_agent;
pub mod deferred;
pub mod factory;
pub mod goal;
pub mod lead_agent;
pub mod lead_chain;
pub mod middleware;
pub mod models;
pub mod order;
pub mod ports;
pub mod prompt;
pub mod read_conversation;
pub mod spending;
mod thoughts;

pub use chain::{Filling, Place};
pub use custom_agent::{AgentSettings, CustomAgent, CustomAgentError, CustomAgents};
pub use factory::{AgentFactory, Extra, FactoryError, Feature, RuntimeFeatures, create_deerflow_agent};
pub use lead_agent::{Harness, LeadAgent, LeadError, LeadOptions, RunLimitsConfig};
pub use lead_chain::{ChainParts, lead_chain};
pub use models::{ModelCatalogue, ModelChoiceError, ModelEntry};
pub use order::{BuiltIn, ORDER, Row, Slot};
pub use ports::HarnessPorts;
pub use spending::{Spending, Tally};
