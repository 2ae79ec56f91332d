//! What a policy is asked, and what it says.

use async_trait::async_trait;
use deerflow_core::{JsonMap, Principal, RunId, ThreadId, UserId};
use serde::{Deserialize, Serialize};

/// A tool call that a policy judges.
#[derive(Debug, Clone, Serialize)]
pub struct GuardrailRequest {
    /// Tool by name.
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: JsonMap,
    /// The agent's passport, where one is configured.
    pub agent_id: Option<String>,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The call.
    pub tool_call_id: String,
    /// Whether a sub-agent calls.
    pub is_subagent: bool,
    /// RFC 3339, UTC.
    pub timestamp: String,
    /// Owner of the thread.
    pub user_id: UserId,
    /// Who the run acts for: `user_role`, `oauth_provider`, `oauth_id`, `channel_user_id`, `is_internal`, `authz_attributes`.
    #[serde(flatten)]
    pub principal: Principal,
}

/// A verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// Whether it may be done.
    pub allow: bool,
    /// Why, the main reason first.
    pub reasons: Vec<Reason>,
    /// The policy that decided.
    pub policy_id: Option<String>,
    /// What else the policy says.
    pub metadata: JsonMap,
}

/// One reason of a [`Decision`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// Stable code, `oap.tool_not_allowed` say.
    pub code: String,
    /// For the model and for people.
    pub message: String,
}

impl Decision {
    /// It may be done.
    #[must_use]
    pub fn allow(code: &str) -> Self {
        Self { allow: true, reasons: vec![Reason { code: code.to_owned(), message: String::new() }], ..Self::default() }
    }
    /// It may not.
    #[must_use]
    pub fn deny(code: &str, message: impl Into<String>) -> Self {
        Self { reasons: vec![Reason { code: code.to_owned(), message: message.into() }], ..Self::default() }
    }
    /// The same verdict in the name of a policy.
    #[must_use]
    pub fn by(mut self, policy_id: impl Into<String>) -> Self {
        self.policy_id = Some(policy_id.into());
        self
    }
    /// Code of the main reason.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.reasons.first().map(|reason| reason.code.as_str()).filter(|code| !code.is_empty())
    }
}

/// A policy could not decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The role of the principal is not in the table.
    #[error("role {role:?} is not configured")]
    UnknownRole {
        /// The role.
        role: String,
    },
    /// The principal has an empty role.
    #[error("the role is empty")]
    EmptyRole,
    /// The policy knows no such resource.
    #[error("unknown resource {resource:?}")]
    UnknownResource {
        /// The resource.
        resource: String,
    },
    /// It did not answer in time.
    #[error("no answer within {seconds} s")]
    Timeout {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Judges tool calls.
#[async_trait]
pub trait GuardrailProvider: Send + Sync {
    /// Name in events and logs.
    fn name(&self) -> &str;
    /// The verdict on one call.
    ///
    /// # Errors
    /// [`PolicyError`]; what happens then is the gate's `fail_closed`.
    async fn evaluate(&self, request: &GuardrailRequest) -> Result<Decision, PolicyError>;
}

/// Who wants something, as authorisation sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// The user.
    pub user_id: String,
    /// Their role; the configured default where they have none of their own.
    pub role: String,
    /// Identity provider they logged in with.
    pub oauth_provider: Option<String>,
    /// Their id there.
    pub oauth_id: Option<String>,
    /// Their id in the chat channel.
    pub channel_user_id: Option<String>,
    /// Whether one of our own processes asks.
    pub is_internal: bool,
    /// Further attributes.
    pub attributes: JsonMap,
}

impl Subject {
    /// The subject behind a run.
    #[must_use]
    pub fn new(user: &UserId, principal: &Principal, default_role: &str) -> Self {
        Self {
            user_id: user.to_string(),
            role: principal.user_role.clone().unwrap_or_else(|| default_role.to_owned()),
            oauth_provider: principal.oauth_provider.clone(),
            oauth_id: principal.oauth_id.clone(),
            channel_user_id: principal.channel_user_id.clone(),
            is_internal: principal.is_internal,
            attributes: principal.authz_attributes.clone(),
        }
    }
}

/// A question to an [`AuthorizationProvider`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuthzRequest {
    /// Who.
    pub principal: Subject,
    /// Kind of thing: `tool`, `model`, `skill`, `sandbox`, `mcp_server`, `route`.
    pub resource: String,
    /// What is to be done with it: `call`, `use`, `execute` …
    pub action: String,
    /// Which one.
    pub target: String,
    /// Facts of the run; empty outside one.
    pub context: JsonMap,
}

/// Says who may use what.
#[async_trait]
pub trait AuthorizationProvider: Send + Sync {
    /// Name in events and logs.
    fn name(&self) -> &str;
    /// The verdict on one use.
    ///
    /// # Errors
    /// [`PolicyError`]; what happens then is the caller's `fail_closed`.
    async fn authorize(&self, request: &AuthzRequest) -> Result<Decision, PolicyError>;
    /// Those of `names` that the principal may use.
    ///
    /// # Errors
    /// As [`Self::authorize`].
    async fn filter_resources(
        &self,
        principal: &Subject,
        resource: &str,
        names: &[String],
    ) -> Result<Vec<String>, PolicyError>;
}
