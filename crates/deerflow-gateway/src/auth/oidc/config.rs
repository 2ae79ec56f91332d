//! The section `auth.oidc`.

use deerflow_config::{KeyPath, Problems, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use url::Url;

/// Login at identity providers (OpenID Connect).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcConfig {
    /// Whether it is offered.
    pub enabled: bool,
    /// Address of the web client, and of this server as browsers see it, `https://app.example.com` say. As the browser's
    /// request says when absent.
    pub frontend_base_url: Option<String>,
    /// Providers by id. The id is part of the address that a provider sends people back to:
    /// `<frontend_base_url>/api/v1/auth/callback/<id>`.
    pub providers: BTreeMap<String, OidcProviderConfig>,
}

/// An identity provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcProviderConfig {
    /// Name to show; the id when absent.
    pub display_name: Option<String>,
    /// Address whose `/.well-known/openid-configuration` describes it.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret there; none for a public client.
    pub client_secret: Option<Secret>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// How we prove who we are when a code is exchanged.
    pub token_endpoint_auth_method: TokenAuth,
    /// Instead of what the provider says.
    pub authorization_endpoint: Option<String>,
    /// Instead of what the provider says.
    pub token_endpoint: Option<String>,
    /// Instead of what the provider says.
    pub jwks_uri: Option<String>,
    /// Instead of what the provider says.
    pub userinfo_endpoint: Option<String>,
    /// Whether people without an account get one.
    pub auto_create_users: bool,
    /// Only addresses that the provider has verified.
    pub require_verified_email: bool,
    /// Only addresses of these domains; any when empty.
    pub allowed_email_domains: Vec<String>,
    /// Addresses whose new accounts administer the installation.
    pub admin_emails: Vec<String>,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenAuth {
    /// Id and secret as HTTP basic authentication.
    #[default]
    ClientSecretBasic,
    /// Id and secret in the form.
    ClientSecretPost,
    /// The id in the form, and no secret.
    None,
}

impl Default for OidcProviderConfig {
    fn default() -> Self {
        Self {
            display_name: None,
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
            token_endpoint_auth_method: TokenAuth::default(),
            authorization_endpoint: None,
            token_endpoint: None,
            jwks_uri: None,
            userinfo_endpoint: None,
            auto_create_users: true,
            require_verified_email: true,
            allowed_email_domains: Vec::new(),
            admin_emails: Vec::new(),
        }
    }
}

impl OidcConfig {
    /// Checks the section; paths are relative to `auth`.
    pub(crate) fn validate(&self, problems: &mut Problems) {
        let base = KeyPath::root().key("oidc");
        let no_address = "is no http or https address";
        if self.frontend_base_url.as_deref().is_some_and(|url| !is_web(url)) {
            problems.error(base.key("frontend_base_url"), no_address, None);
        }
        for (id, provider) in &self.providers {
            let base = base.key("providers").key(id);
            let known = id.len() <= 32
                && !id.is_empty()
                && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
            if !known {
                let message = "is no id of a provider: use 1 to 32 of the characters a-z 0-9 _ -";
                problems.error(base.clone(), message, None);
            }
            if !is_web(&provider.issuer) {
                problems.error(base.key("issuer"), no_address, Some("as the provider documents it".to_owned()));
            }
            if provider.client_id.is_empty() {
                problems.error(base.key("client_id"), "is missing", None);
            }
            if provider.client_secret.is_none() && provider.token_endpoint_auth_method != TokenAuth::None {
                let help = "set it, or `token_endpoint_auth_method: none` for a public client".to_owned();
                problems.error(base.key("client_secret"), "is missing", Some(help));
            }
            if !provider.scopes.iter().any(|scope| scope == "openid") {
                problems.error(base.key("scopes"), "`openid` is missing", None);
            }
            let endpoints = [
                ("authorization_endpoint", &provider.authorization_endpoint),
                ("token_endpoint", &provider.token_endpoint),
                ("jwks_uri", &provider.jwks_uri),
                ("userinfo_endpoint", &provider.userinfo_endpoint),
            ];
            for (key, url) in endpoints {
                if url.as_deref().is_some_and(|url| !is_web(url)) {
                    problems.error(base.key(key), no_address, None);
                }
            }
        }
    }
}

fn is_web(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
