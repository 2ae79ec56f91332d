//! Who may use the server.
//!
//! A request is looked at in this order: does the page that sent it belong to us ([`csrf`](self)), who asks
//! (a personal key, another process of ours, a session), and may they do that. Whatever is not named in `paths` as open needs
//! somebody who asks.

mod accounts;
mod address;
mod api_key;
mod attempts;
mod authenticate;
mod config;
mod cookies;
mod csrf;
mod oidc;
mod origin;
mod password;
mod paths;
mod secret;
mod session;
mod settings;
mod throttle;

pub use accounts::{AccountError, Accounts};
pub use api_key::FreshApiKey;
pub use config::{AuthConfig, LocalConfig};
pub use oidc::{OidcConfig, OidcProviderConfig, TokenAuth};
pub use password::{HashError, Passwords, WeakPassword, check_password, random_password};
pub use secret::SecretError;
pub use settings::{AuthError, Environment};

pub(crate) use address::ClientAddress;
pub(crate) use authenticate::authenticate;
pub(crate) use cookies::{CookieRules, logout, read as cookie};
pub(crate) use csrf::csrf;
pub(crate) use oidc::{Identity, Oidc, OidcError, STATE_SECONDS};
pub(crate) use origin::{Origin, Target};

use attempts::Attempts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deerflow_config::{Config, Secret};
use deerflow_harness::middleware::{Authorization, AuthorizationConfig};
use password::Verdict;
use session::Signer;
use settings::Settings;
use std::net::IpAddr;
use std::sync::Arc;
use throttle::Throttle;

/// Everything that decides who may use the server.
pub struct Auth {
    pub(crate) settings: Settings,
    pub(crate) signer: Signer,
    pub(crate) accounts: Accounts,
    pub(crate) attempts: Attempts,
    pub(crate) oidc: Option<Oidc>,
    throttle: Option<Throttle>,
    internal_token: Secret,
    authorization: Option<Authorization>,
}

impl Auth {
    /// As the configuration and these variables say. Makes the key for sessions when there is none.
    ///
    /// # Errors
    /// When that key cannot be used, or a variable is wrong.
    pub async fn open(config: Arc<Config>, environment: Environment) -> Result<Self, AuthError> {
        // Files are read and written.
        tokio::task::spawn_blocking(move || Self::open_blocking(&config, &environment))
            .await
            .map_err(AuthError::Task)?
    }

    fn open_blocking(config: &Config, environment: &Environment) -> Result<Self, AuthError> {
        let section = config.section::<AuthConfig>();
        let settings = Settings::new(&section, environment)?;
        let key = secret::load(config.home(), environment.get("AUTH_JWT_SECRET"))?;
        let signer = Signer::new(&key).ok_or(AuthError::Signer)?;
        let internal = environment.get("DEER_FLOW_INTERNAL_AUTH_TOKEN").unwrap_or_else(|| random_text(32));
        let authorization = Authorization::from_config(&config.section::<AuthorizationConfig>())
            .map_err(|found| AuthError::Policy(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
        Ok(Self {
            signer,
            accounts: Accounts::new(Passwords::default()),
            attempts: Attempts::default(),
            oidc: Oidc::new(&section.oidc)?,
            throttle: section.requests_per_minute.map(Throttle::new),
            internal_token: internal.into(),
            authorization,
            settings,
        })
    }

    /// Whether people log in.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// Whether whoever reaches the server can make an account.
    #[must_use]
    pub fn registration_is_open(&self) -> bool {
        self.settings.section.local.allow_registration
    }

    /// Whether the server may listen on this address. Without login only on loopback, and only where commands are confined:
    /// whatever runs on the machine could run commands as its user otherwise.
    ///
    /// # Errors
    /// [`AuthError::Exposed`], [`AuthError::Unconfined`].
    pub fn permit(&self, address: IpAddr, confined: bool) -> Result<(), AuthError> {
        match (self.is_enabled(), address.to_canonical().is_loopback(), confined) {
            (true, ..) | (false, true, true) => Ok(()),
            (false, false, _) => Err(AuthError::Exposed { address }),
            (false, true, false) => Err(AuthError::Unconfined),
        }
    }
}

/// In every path about login.
pub(crate) const AUTH_PATHS: &str = "/v1/auth/";

/// Random bytes as text that is safe in URLs and cookies.
pub(crate) fn random_text(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    rand::fill(&mut buffer[..]);
    URL_SAFE_NO_PAD.encode(buffer)
}
