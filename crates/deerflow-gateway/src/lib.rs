//! The HTTP server: what LangGraph's SDKs and the web client talk to.
//!
//! A route reads a request into types, asks a port or the runtime, and renders the answer; it decides nothing else. Every
//! route is mounted under `/api` and under `/api/langgraph` alike, so that a client finds it under either base.
//!
//! **Invariant:** a handler gets its user from [`Caller`] and gives that user to every port it asks. There is no other way
//! to a thread.

mod app;
mod auth;
mod caller;
mod config;
mod error;
mod extract;
mod layers;
mod metrics;
mod openapi;
mod routes;
mod server;
mod sse;
mod wire;

pub use app::{AppParts, AppState, Store, router};
pub use auth::{
    AccountError, Accounts, Auth, AuthConfig, AuthError, Environment, FreshApiKey, HashError, LocalConfig, OidcConfig,
    OidcProviderConfig, Passwords, SecretError, TokenAuth, WeakPassword, check_password, random_password,
};
pub use caller::Caller;
pub use config::{AgentsApiConfig, InputPolishConfig, ServerConfig, SuggestionsConfig, sections};
pub use error::ApiError;
pub use openapi::document;
pub use server::{ServeError, serve};
