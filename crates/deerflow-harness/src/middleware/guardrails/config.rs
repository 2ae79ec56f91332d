//! The sections `authorization:` and `guardrails:`, and which policy a `use:` names.

use super::allowlist::AllowlistProvider;
use super::provider::{AuthorizationProvider, GuardrailProvider};
use super::rbac::RbacProvider;
use deerflow_config::{KeyPath, Problems, Section, nearest};
use deerflow_core::JsonMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Policies for `guardrails`: name, and the class path of the original.
const GUARDRAILS: [(&str, &str); 1] = [("allowlist", "deerflow.guardrails.builtin:AllowlistProvider")];
/// Policies for `authorization`.
const AUTHORIZATION: [(&str, &str); 1] = [("rbac", "deerflow.authz.rbac:RbacAuthorizationProvider")];

/// Who may use which tools, models and other things. Checked when an agent is made and again at every tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthorizationConfig {
    /// Whether anything is checked.
    pub enabled: bool,
    /// Deny when the policy fails; otherwise allow.
    pub fail_closed: bool,
    /// Role of users without one of their own.
    pub default_role: String,
    /// The policy.
    pub provider: Option<PolicyChoice>,
}

impl Default for AuthorizationConfig {
    fn default() -> Self {
        Self { enabled: false, fail_closed: true, default_role: "user".to_owned(), provider: None }
    }
}

/// A second gate around every tool call, for rules that do not depend on who calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GuardrailsConfig {
    /// Whether anything is checked.
    pub enabled: bool,
    /// Deny when the policy fails; otherwise allow.
    pub fail_closed: bool,
    /// What the policy knows the agent by: an id or the path of a passport file.
    pub passport: Option<String>,
    /// The policy.
    pub provider: Option<PolicyChoice>,
}

impl Default for GuardrailsConfig {
    fn default() -> Self {
        Self { enabled: false, fail_closed: true, passport: None, provider: None }
    }
}

/// Names a policy and configures it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyChoice {
    /// `rbac` for `authorization`, `allowlist` for `guardrails`; the class paths of the original mean the same.
    #[serde(rename = "use")]
    pub uses: String,
    /// Settings of the policy.
    pub config: JsonMap,
}

/// A problem of a policy's settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}{}", .help.as_ref().map(|help| format!("; hint: {help}")).unwrap_or_default())]
pub struct PolicyConfigError {
    /// Where it is, beneath the section.
    pub path: KeyPath,
    /// What is wrong.
    pub message: String,
    /// What to do, where known.
    pub help: Option<String>,
}

impl PolicyConfigError {
    pub(super) fn new(path: KeyPath, message: impl Into<String>) -> Self {
        Self { path, message: message.into(), help: None }
    }
    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    pub(super) fn unknown_key(path: KeyPath, key: &str, known: &[&str]) -> Self {
        let near = nearest(key, known.iter().copied());
        let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        Self::new(path, format!("unknown key{hint}")).with_help(format!("known keys: {}", list(known)))
    }
    fn beneath(mut self, base: &KeyPath) -> Self {
        self.path = base.join(&self.path);
        self
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Whether `uses` is the one policy of this kind; `other` is that of the other section.
fn check_name(
    uses: &str,
    known: &[(&str, &str)],
    other: &[(&str, &str)],
    section: &str,
) -> Result<(), PolicyConfigError> {
    if known.iter().any(|(name, path)| uses == *name || uses == *path) {
        return Ok(());
    }
    let path = KeyPath::root().key("provider").key("use");
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let error = match uses {
        "" => PolicyConfigError::new(path, "no policy is named"),
        uses if other.iter().any(|(name, path)| uses == *name || uses == *path) => {
            return Err(PolicyConfigError::new(path, format!("`{uses}` is no policy of this section"))
                .with_help(format!("it belongs under `{section}`; here there is {}", list(&names))));
        }
        uses => {
            let all = known.iter().flat_map(|(name, path)| [*name, *path]);
            let hint = nearest(uses, all).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            PolicyConfigError::new(path, format!("unknown policy `{uses}`{hint}"))
        }
    };
    Err(error.with_help(format!("known policies: {}", list(&names))))
}

fn place_config(problems: Vec<PolicyConfigError>) -> Vec<PolicyConfigError> {
    let base = KeyPath::root().key("provider").key("config");
    problems.into_iter().map(|problem| problem.beneath(&base)).collect()
}

impl GuardrailsConfig {
    /// The policy that is chosen; `None` when the section is off or chooses none.
    ///
    /// # Errors
    /// Every problem found.
    pub fn provider(&self) -> Result<Option<Arc<dyn GuardrailProvider>>, Vec<PolicyConfigError>> {
        match &self.provider {
            Some(choice) if self.enabled => Self::make(choice).map(Some),
            _ => Ok(None),
        }
    }

    fn make(choice: &PolicyChoice) -> Result<Arc<dyn GuardrailProvider>, Vec<PolicyConfigError>> {
        check_name(&choice.uses, &GUARDRAILS, &AUTHORIZATION, "authorization").map_err(|error| vec![error])?;
        Ok(Arc::new(AllowlistProvider::from_config(&choice.config).map_err(place_config)?))
    }
}

impl AuthorizationConfig {
    /// The policy that is chosen; `None` when the section is off.
    ///
    /// # Errors
    /// Every problem found; that none is chosen is one.
    pub fn provider(&self) -> Result<Option<Arc<dyn AuthorizationProvider>>, Vec<PolicyConfigError>> {
        if !self.enabled {
            return Ok(None);
        }
        let Some(choice) = &self.provider else {
            let error = PolicyConfigError::new(
                KeyPath::root().key("provider"),
                "authorisation is on and no policy is configured",
            );
            return Err(vec![error.with_help("set `provider.use: rbac` and a table of roles, or `enabled: false`")]);
        };
        self.make(choice).map(Some)
    }

    fn make(&self, choice: &PolicyChoice) -> Result<Arc<dyn AuthorizationProvider>, Vec<PolicyConfigError>> {
        check_name(&choice.uses, &AUTHORIZATION, &GUARDRAILS, "guardrails").map_err(|error| vec![error])?;
        let rbac = RbacProvider::from_config(&choice.config).map_err(place_config)?;
        if !rbac.roles().any(|role| role == self.default_role) {
            let roles: Vec<&str> = rbac.roles().collect();
            let message = match self.default_role.trim() {
                "" => "the default role is empty".to_owned(),
                role => format!("unknown role `{role}`"),
            };
            let error = PolicyConfigError::new(KeyPath::root().key("default_role"), message);
            return Err(vec![error.with_help(format!("configured roles: {}", list(&roles)))]);
        }
        Ok(Arc::new(rbac))
    }
}

fn report(problems: &mut Problems, found: Vec<PolicyConfigError>) {
    for PolicyConfigError { path, message, help } in found {
        problems.error(path, message, help);
    }
}

impl Section for AuthorizationConfig {
    const KEY: &'static str = "authorization";

    fn validate(&self, problems: &mut Problems) {
        let checked = match &self.provider {
            // A policy that is switched off is checked too: it shall work when it is switched on.
            Some(choice) => self.make(choice).map(drop),
            None => self.provider().map(drop),
        };
        if let Err(found) = checked {
            report(problems, found);
        }
    }
}

impl Section for GuardrailsConfig {
    const KEY: &'static str = "guardrails";

    fn validate(&self, problems: &mut Problems) {
        match &self.provider {
            Some(choice) => {
                if let Err(found) = Self::make(choice) {
                    report(problems, found);
                }
            }
            None if self.enabled => {
                problems.warning(
                    "enabled",
                    "nothing is checked: no policy is configured",
                    Some("set `provider.use: allowlist`".to_owned()),
                );
            }
            None => {}
        }
    }
}
