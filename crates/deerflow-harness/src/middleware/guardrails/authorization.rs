//! Authorisation for those who assemble an agent: which tools it gets, which model it may use, and the gate around its calls.

use super::GuardrailMiddleware;
use super::config::{AuthorizationConfig, PolicyConfigError};
use super::gate::in_time;
use super::provider::{
    AuthorizationProvider, AuthzRequest, Decision, GuardrailProvider, GuardrailRequest, PolicyError, Subject,
};
use async_trait::async_trait;
use deerflow_core::{JsonMap, Principal, Tool, UserId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The configured authorisation.
#[derive(Clone)]
pub struct Authorization {
    provider: Arc<dyn AuthorizationProvider>,
    fail_closed: bool,
    default_role: String,
}

/// No model may be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelDenied {
    /// Neither the wanted one nor another.
    #[error("model {model} may not be used by this user, and no other may")]
    NoneAllowed {
        /// The wanted one.
        model: String,
    },
    /// The policy failed, and what is not allowed is denied.
    #[error("model {model} may not be used: the policy failed: {error}")]
    PolicyFailed {
        /// The wanted one.
        model: String,
        /// Why.
        error: PolicyError,
    },
}

impl Authorization {
    /// Authorisation by this policy. `default_role` is for users without a role; `fail_closed` denies when the policy fails.
    #[must_use]
    pub fn new(provider: Arc<dyn AuthorizationProvider>, default_role: impl Into<String>, fail_closed: bool) -> Self {
        Self { provider, fail_closed, default_role: default_role.into() }
    }

    /// What the section says; `None` when it is off.
    ///
    /// # Errors
    /// Every problem of the section.
    pub fn from_config(config: &AuthorizationConfig) -> Result<Option<Self>, Vec<PolicyConfigError>> {
        let provider = config.provider()?;
        Ok(provider.map(|provider| Self::new(provider, config.default_role.clone(), config.fail_closed)))
    }

    fn subject(&self, user: &UserId, principal: &Principal) -> Subject {
        Subject::new(user, principal, &self.default_role)
    }

    /// The tools a user may have, in their order: the first layer, before anything is deferred, so that a tool that is denied
    /// can never be found again. When the policy fails there are none if it fails closed, else all.
    pub async fn filter_tools(
        &self,
        user: &UserId,
        principal: &Principal,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Vec<Arc<dyn Tool>> {
        let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
        match self.filter("tool", user, principal, &names).await {
            Ok(allowed) => tools.into_iter().filter(|tool| allowed.contains(&tool.spec().name)).collect(),
            Err(error) if self.fail_closed => {
                tracing::warn!(provider = self.provider.name(), %error, "tools could not be authorised; the agent gets none");
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(provider = self.provider.name(), %error, "tools could not be authorised; the agent gets all");
                tools
            }
        }
    }

    async fn filter(
        &self,
        resource: &str,
        user: &UserId,
        principal: &Principal,
        names: &[String],
    ) -> Result<BTreeSet<String>, PolicyError> {
        let subject = self.subject(user, principal);
        let allowed = in_time(self.provider.filter_resources(&subject, resource, names)).await?;
        match allowed.iter().find(|name| !names.contains(name)) {
            Some(stranger) => {
                Err(PolicyError::Failed(format!("the policy named {stranger:?}, which was not asked about")))
            }
            None => Ok(allowed.into_iter().collect()),
        }
    }

    /// Whether a user may do this.
    ///
    /// # Errors
    /// The policy's own.
    pub async fn authorize(
        &self,
        user: &UserId,
        principal: &Principal,
        (resource, action): (&str, &str),
        target: &str,
    ) -> Result<Decision, PolicyError> {
        let request = AuthzRequest {
            principal: self.subject(user, principal),
            resource: resource.to_owned(),
            action: action.to_owned(),
            target: target.to_owned(),
            context: JsonMap::new(),
        };
        in_time(self.provider.authorize(&request)).await
    }

    /// The same as yes or no: a policy that fails says no if it fails closed.
    pub async fn allows(
        &self,
        user: &UserId,
        principal: &Principal,
        (resource, action): (&str, &str),
        target: &str,
    ) -> bool {
        match self.authorize(user, principal, (resource, action), target).await {
            Ok(decision) => decision.allow,
            Err(error) => {
                let (fail_closed, provider) = (self.fail_closed, self.provider.name());
                tracing::warn!(provider, resource, action, fail_closed, %error, "the policy failed");
                !self.fail_closed
            }
        }
    }

    /// Whether a user may have commands run and files read in the sandbox: `sandbox:execute`.
    pub async fn allows_sandbox(&self, user: &UserId, principal: &Principal) -> bool {
        // The sandbox is one thing without a name.
        self.allows(user, principal, ("sandbox", "execute"), "*").await
    }

    /// The model to use: the wanted one if `model:use` is allowed, else the first of `configured` that is listed and allowed.
    ///
    /// # Errors
    /// [`ModelDenied`], when there is none or the policy fails, and it fails closed; otherwise the wanted one stays.
    pub async fn choose_model(
        &self,
        user: &UserId,
        principal: &Principal,
        wanted: &str,
        configured: &[String],
    ) -> Result<String, ModelDenied> {
        match self.try_choose(user, principal, wanted, configured).await {
            Ok(Some(model)) => {
                if model != wanted {
                    tracing::warn!(wanted, model, "model is not allowed for this user; another one is used");
                }
                Ok(model)
            }
            Ok(None) if self.fail_closed => Err(ModelDenied::NoneAllowed { model: wanted.to_owned() }),
            Err(error) if self.fail_closed => Err(ModelDenied::PolicyFailed { model: wanted.to_owned(), error }),
            failed => {
                let error = failed.err().map(|error| error.to_string());
                tracing::warn!(wanted, error, "no model is allowed for this user; the wanted one is used all the same");
                Ok(wanted.to_owned())
            }
        }
    }

    async fn try_choose(
        &self,
        user: &UserId,
        principal: &Principal,
        wanted: &str,
        configured: &[String],
    ) -> Result<Option<String>, PolicyError> {
        const USE: (&str, &str) = ("model", "use");
        if self.authorize(user, principal, USE, wanted).await?.allow {
            return Ok(Some(wanted.to_owned()));
        }
        let listed = self.filter("model", user, principal, configured).await?;
        for model in configured.iter().filter(|model| *model != wanted && listed.contains(*model)) {
            if self.authorize(user, principal, USE, model).await?.allow {
                return Ok(Some(model.clone()));
            }
        }
        Ok(None)
    }

    /// The gate around tool calls: the second layer. `infrastructure` are tools that the harness itself makes from tools already
    /// authorised (`tool_search`); they pass.
    #[must_use]
    pub fn middleware(&self, infrastructure: impl IntoIterator<Item = String>) -> GuardrailMiddleware {
        let gate = ToolGate { authorization: self.clone(), infrastructure: infrastructure.into_iter().collect() };
        GuardrailMiddleware::authorization(Arc::new(gate), self.fail_closed)
    }
}

/// An authorisation policy as a guardrail: resource `tool`, action `call`, target the tool's name.
struct ToolGate {
    authorization: Authorization,
    infrastructure: BTreeSet<String>,
}

#[async_trait]
impl GuardrailProvider for ToolGate {
    fn name(&self) -> &str {
        self.authorization.provider.name()
    }

    async fn evaluate(&self, request: &GuardrailRequest) -> Result<Decision, PolicyError> {
        if self.infrastructure.contains(&request.tool_name) {
            return Ok(Decision::allow("authz.infrastructure_tool"));
        }
        let context = [
            ("thread_id", request.thread_id.to_string().into()),
            ("run_id", request.run_id.to_string().into()),
            ("tool_call_id", request.tool_call_id.clone().into()),
            ("is_subagent", request.is_subagent.into()),
            ("timestamp", request.timestamp.clone().into()),
            ("tool_input", request.tool_input.clone().into()),
        ];
        let asked = AuthzRequest {
            principal: self.authorization.subject(&request.user_id, &request.principal),
            resource: "tool".to_owned(),
            action: "call".to_owned(),
            target: request.tool_name.clone(),
            context: context.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        };
        self.authorization.provider.authorize(&asked).await
    }
}
