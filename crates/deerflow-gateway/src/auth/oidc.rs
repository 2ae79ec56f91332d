//! Login at an identity provider: OpenID Connect, authorisation code flow with PKCE.

mod config;

pub use config::{OidcConfig, OidcProviderConfig, TokenAuth};
