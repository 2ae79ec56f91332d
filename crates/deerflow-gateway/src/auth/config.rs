//! The section `auth`.

use super::oidc::OidcConfig;
use super::origin::Origin;
use deerflow_config::{KeyPath, Problems, Section};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Who may use the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether people log in. Off is for one person at one machine: it is refused on any address but loopback, and where
    /// commands run unconfined. `DEER_FLOW_AUTH_DISABLED=1` says the same.
    pub enabled: bool,
    /// Accounts with a password.
    pub local: LocalConfig,
    /// How long a login lasts, in days.
    #[schemars(range(min = 1, max = 365))]
    pub session_days: u32,
    /// Logins outlive the browser over plain HTTP too. Otherwise only over HTTPS, or on loopback.
    pub allow_insecure_persistent_cookie: bool,
    /// Other origins whose pages may use the API, `https://app.example.com` say. `GATEWAY_CORS_ORIGINS` adds to them.
    pub allowed_origins: Vec<String>,
    /// Addresses or networks of proxies whose `X-Real-IP` is believed. `AUTH_TRUSTED_PROXIES` adds to them.
    pub trusted_proxies: Vec<String>,
    /// Requests that one user, or one address without a user, may make a minute. No limit when absent.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Login at identity providers.
    pub oidc: OidcConfig,
}

/// Accounts with a password.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LocalConfig {
    /// Whether whoever reaches the server can make an account.
    pub allow_registration: bool,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self { allow_registration: true }
    }
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            local: LocalConfig::default(),
            session_days: 7,
            allow_insecure_persistent_cookie: false,
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            requests_per_minute: None,
            oidc: OidcConfig::default(),
        }
    }
}

impl Section for AuthConfig {
    const KEY: &'static str = "auth";
    const RESTART_ONLY: bool = true;

    fn validate(&self, problems: &mut Problems) {
        for (index, origin) in self.allowed_origins.iter().enumerate() {
            if Origin::parse(origin).is_none() {
                let help = "write scheme and host, as in `https://app.example.com`".to_owned();
                problems.error(at("allowed_origins", index), format!("`{origin}` is no origin"), Some(help));
            }
        }
        for (index, network) in self.trusted_proxies.iter().enumerate() {
            if parse_network(network).is_none() {
                let help = "write an address or a network, as in `10.0.0.0/8`".to_owned();
                problems.error(at("trusted_proxies", index), format!("`{network}` is no address"), Some(help));
            }
        }
        self.oidc.validate(problems);
    }
}

fn at(key: &str, index: usize) -> KeyPath {
    KeyPath::root().key(key).index(index)
}

/// `10.0.0.1` or `10.0.0.0/8`.
pub(super) fn parse_network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}
