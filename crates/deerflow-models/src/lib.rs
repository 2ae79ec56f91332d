//! Language models over HTTP: provider adapters, making a history legal for its provider, recording and replay.
//!
//! **Invariant:** nothing leaves this crate for a provider that did not pass [`legalise`], and no text that leaves it for
//! people (errors, logs, recordings) holds a key. Adapters make one attempt; retrying belongs to the harness.

mod anthropic;
mod codex;
mod construct;
mod cost;
mod env;
mod errors;
mod exchange;
mod factory;
mod gemini;
pub mod legalise;
mod lenient;
mod openai;
mod quirks;
mod record;
mod replay;
mod responses;
mod settings;
#[doc(hidden)]
pub mod testing;
mod transport;

pub use construct::ModelOverrides;
pub use cost::{Cost, cost};
pub use env::models_from_env;
pub use factory::{EnvLookup, create_chat_model, create_chat_model_over, create_chat_model_with};
pub use transport::{Transport, WireRequest, WireResponse};
