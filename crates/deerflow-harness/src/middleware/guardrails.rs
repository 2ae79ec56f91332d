//! Policies: may this agent do that for this user?
//!
//! Two kinds, asked in this order around each tool call. *Authorisation* knows who the run acts for, and is also asked when an
//! agent is assembled, for its tools and its model. *Guardrails* know the call itself. A policy that fails denies, unless the
//! configuration says otherwise. An allowed call that is no stranger's business is not told; a denial is, without arguments.

mod allowlist;
mod authorization;
mod config;
mod gate;
mod provider;
mod rbac;

pub use allowlist::AllowlistProvider;
pub use authorization::{Authorization, ModelDenied};
pub use config::{AuthorizationConfig, GuardrailsConfig, PolicyChoice, PolicyConfigError};
pub use gate::{AUTHORIZATION_OUTCOME, GuardrailMiddleware};
pub use provider::{
    AuthorizationProvider, AuthzRequest, Decision, GuardrailProvider, GuardrailRequest, PolicyError, Reason, Subject,
};
pub use rbac::RbacProvider;

#[cfg(test)]
mod tests;
