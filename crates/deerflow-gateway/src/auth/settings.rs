//! The section together with the variables that the original reads.

use super::config::{AuthConfig, parse_network};
use super::origin::Origin;
use super::secret::SecretError;
use deerflow_net::ClientError;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Variables of the environment.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
    }

    fn list(&self, name: &str) -> Vec<String> {
        let value = self.get(name).unwrap_or_default();
        value.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

/// The values may be secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The server cannot be run like this.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The key for sessions.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key for sessions cannot be used to sign.
    #[error("the key for sessions cannot be used to sign; hint: make another with `openssl rand -hex 32`")]
    Signer,
    /// A variable is wrong.
    #[error("{variable}: `{value}` is no {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// The part that is wrong.
        value: String,
        /// What should be there.
        expected: &'static str,
    },
    /// The client for identity providers.
    #[error(transparent)]
    Http(#[from] ClientError),
    /// The section `authorization`.
    #[error("authorization: {0}")]
    Policy(String),
    /// Login is off, and others can reach the server.
    #[error(
        "login is off, and {address} can be reached from other machines; \
         hint: use --host 127.0.0.1, or switch login on (`auth.enabled: true`, no DEER_FLOW_AUTH_DISABLED)"
    )]
    Exposed {
        /// Where it would listen.
        address: IpAddr,
    },
    /// Login is off, and commands are not confined.
    #[error(
        "login is off, and the sandbox is `host`: every program on this machine could run commands as you; \
         hint: use another sandbox, or switch login on (`auth.enabled: true`, no DEER_FLOW_AUTH_DISABLED)"
    )]
    Unconfined,
    /// The work was given up, at the end of the process.
    #[error("login could not be set up: {0}")]
    Task(tokio::task::JoinError),
}

/// What holds.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) section: AuthConfig,
    pub(crate) enabled: bool,
    pub(crate) allowed_origins: Vec<Origin>,
    pub(super) trusted_proxies: Vec<IpNet>,
    insecure_persistence: bool,
}

impl Settings {
    pub(super) fn new(section: &AuthConfig, environment: &Environment) -> Result<Self, AuthError> {
        let production = ["DEER_FLOW_ENV", "ENVIRONMENT"]
            .iter()
            .any(|name| matches!(environment.get(name).as_deref(), Some("prod" | "production")));
        let disabled = environment.is_on("DEER_FLOW_AUTH_DISABLED");
        if disabled && production {
            tracing::warn!("DEER_FLOW_AUTH_DISABLED is ignored in production");
        }
        let origins = environment.list("GATEWAY_CORS_ORIGINS");
        let allowed_origins = section.allowed_origins.iter().chain(origins.iter().filter(|origin| *origin != "*"));
        let proxies = environment.list("AUTH_TRUSTED_PROXIES");
        Ok(Self {
            enabled: section.enabled && (!disabled || production),
            allowed_origins: allowed_origins
                .map(|text| Origin::parse(text).ok_or_else(|| wrong("GATEWAY_CORS_ORIGINS", text, "origin")))
                .collect::<Result<_, _>>()?,
            trusted_proxies: section
                .trusted_proxies
                .iter()
                .chain(&proxies)
                .map(|text| {
                    parse_network(text).ok_or_else(|| wrong("AUTH_TRUSTED_PROXIES", text, "address or network"))
                })
                .collect::<Result<_, _>>()?,
            insecure_persistence: section.allow_insecure_persistent_cookie
                || environment.is_on("DEER_FLOW_AUTH_ALLOW_INSECURE_PERSISTENT_COOKIE"),
            section: section.clone(),
        })
    }

    /// Whether logins outlive the browser where they can be read on the way.
    pub(crate) fn keeps_insecure(&self) -> bool {
        self.insecure_persistence
    }

    /// Seconds that a session lasts.
    pub(crate) fn session_seconds(&self) -> u64 {
        u64::from(self.section.session_days) * 86_400
    }
}

fn wrong(variable: &'static str, value: &str, expected: &'static str) -> AuthError {
    AuthError::Variable { variable, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, AuthError> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::new(&AuthConfig::default(), &variables)
    }

    #[test]
    fn login_is_not_switched_off_in_production() {
        assert!(settings(&[]).unwrap().enabled);
        assert!(settings(&[("DEER_FLOW_AUTH_DISABLED", "0")]).unwrap().enabled);
        assert!(!settings(&[("DEER_FLOW_AUTH_DISABLED", "1")]).unwrap().enabled);
        for variable in ["DEER_FLOW_ENV", "ENVIRONMENT"] {
            assert!(settings(&[("DEER_FLOW_AUTH_DISABLED", "1"), (variable, "production")]).unwrap().enabled);
        }
    }

    #[test]
    fn lists_are_read_and_checked() {
        let read = settings(&[("GATEWAY_CORS_ORIGINS", "*, https://a.example/ ,http://b:3000")]).unwrap();
        let origins: Vec<String> = read.allowed_origins.iter().map(ToString::to_string).collect();
        assert_eq!(origins, ["https://a.example", "http://b:3000"]);
        let error = settings(&[("AUTH_TRUSTED_PROXIES", "10.0.0.0/8,proxy")]).unwrap_err().to_string();
        assert_eq!(error, "AUTH_TRUSTED_PROXIES: `proxy` is no address or network");
    }
}
