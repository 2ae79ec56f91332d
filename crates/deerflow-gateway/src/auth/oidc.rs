//! Login at an identity provider: OpenID Connect, authorisation code flow with PKCE.

mod config;
mod discovery;
mod flow;

pub use config::{OidcConfig, OidcProviderConfig, TokenAuth};
pub(crate) use flow::{Identity, STATE_SECONDS};

use deerflow_net::{ClientError, HttpOptions, http_client};
use discovery::Discovery;
use std::time::Duration;

/// Longest that a provider may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A login elsewhere did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    /// There is no such provider.
    #[error("there is no such identity provider")]
    Unknown,
    /// The answer belongs to no login that began here, or to one that took too long.
    #[error("this login did not begin here, or took too long; start again")]
    State,
    /// The provider does not do its part.
    #[error("the identity provider: {0}")]
    Provider(String),
    /// What it says of somebody does not hold.
    #[error("the provider's token is refused: {0}")]
    Token(&'static str),
}

/// The configured providers.
pub(crate) struct Oidc {
    config: OidcConfig,
    http: reqwest::Client,
    discovery: Discovery,
}

impl Oidc {
    /// `None` when none is offered. Blocks: certificates are read.
    pub(crate) fn new(config: &OidcConfig) -> Result<Option<Self>, ClientError> {
        if !config.enabled || config.providers.is_empty() {
            return Ok(None);
        }
        let tls = config.providers.values().any(|provider| provider.issuer.starts_with("https:"));
        let http = http_client(&HttpOptions { total_timeout: Some(TIMEOUT), tls, ..HttpOptions::default() })?;
        Ok(Some(Self { config: config.clone(), http, discovery: Discovery::default() }))
    }

    /// Address of the web client and of this server, if it is configured; without a slash at the end.
    pub(crate) fn base_url(&self) -> Option<&str> {
        self.config.frontend_base_url.as_deref().map(|url| url.trim_end_matches('/'))
    }

    /// A provider by its id.
    pub(crate) fn provider(&self, id: &str) -> Result<&OidcProviderConfig, OidcError> {
        self.config.providers.get(id).ok_or(OidcError::Unknown)
    }
}
