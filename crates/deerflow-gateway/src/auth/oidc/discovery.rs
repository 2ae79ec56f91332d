//! What a provider says of itself: its addresses and its keys.

use super::{OidcError, OidcProviderConfig};
use deerflow_net::read_limited;
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long it is believed.
const FRESH: Duration = Duration::from_secs(300);
/// Largest answer of a provider, in bytes.
const LARGEST: usize = 1 << 20;

/// A provider's addresses (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Endpoints {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) jwks_uri: String,
    #[serde(default)]
    pub(super) userinfo_endpoint: Option<String>,
}

/// What was read of each provider, and when.
#[derive(Default)]
pub(super) struct Discovery {
    endpoints: Cache<Endpoints>,
    keys: Cache<JwkSet>,
}

struct Cache<T>(Mutex<BTreeMap<String, (Instant, Arc<T>)>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cache<T> {
    fn get(&self, id: &str) -> Option<Arc<T>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|(read, _)| read.elapsed() < FRESH).map(|(_, value)| value.clone())
    }
    fn put(&self, id: &str, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id.to_owned(), (Instant::now(), value.clone()));
        value
    }
}

impl Discovery {
    /// The addresses of a provider. What the configuration names wins.
    pub(super) async fn endpoints(
        &self,
        http: &reqwest::Client,
        id: &str,
        provider: &OidcProviderConfig,
    ) -> Result<Arc<Endpoints>, OidcError> {
        if let Some(known) = self.endpoints.get(id) {
            return Ok(known);
        }
        let issuer = provider.issuer.trim_end_matches('/');
        let mut found = match (&provider.authorization_endpoint, &provider.token_endpoint, &provider.jwks_uri) {
            (Some(authorization), Some(token), Some(keys)) => Endpoints {
                issuer: provider.issuer.clone(),
                authorization_endpoint: authorization.clone(),
                token_endpoint: token.clone(),
                jwks_uri: keys.clone(),
                userinfo_endpoint: None,
            },
            _ => read(http.get(format!("{issuer}/.well-known/openid-configuration"))).await?,
        };
        // Another issuer's tokens would be taken for this one's.
        if found.issuer.trim_end_matches('/') != issuer {
            return Err(OidcError::Provider(format!("it calls itself {}, not {}", found.issuer, provider.issuer)));
        }
        let set = |place: &mut String, given: &Option<String>| given.iter().for_each(|given| place.clone_from(given));
        set(&mut found.authorization_endpoint, &provider.authorization_endpoint);
        set(&mut found.token_endpoint, &provider.token_endpoint);
        set(&mut found.jwks_uri, &provider.jwks_uri);
        if provider.userinfo_endpoint.is_some() {
            found.userinfo_endpoint.clone_from(&provider.userinfo_endpoint);
        }
        Ok(self.endpoints.put(id, found))
    }

    /// The keys of a provider; read again when `key_id` is none of those known.
    pub(super) async fn keys(
        &self,
        http: &reqwest::Client,
        id: &str,
        address: &str,
        key_id: Option<&str>,
    ) -> Result<Arc<JwkSet>, OidcError> {
        let has = |keys: &JwkSet| key_id.is_none_or(|key_id| keys.find(key_id).is_some());
        if let Some(known) = self.keys.get(id).filter(|keys| has(keys)) {
            return Ok(known);
        }
        // A set may hold keys of kinds that we do not know.
        let raw: RawKeys = read(http.get(address)).await?;
        let keys = raw.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        Ok(self.keys.put(id, JwkSet { keys }))
    }
}

#[derive(Deserialize)]
struct RawKeys {
    keys: Vec<serde_json::Value>,
}

/// Sends a request to a provider and reads the JSON of its answer.
pub(super) async fn read<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, OidcError> {
    // Addresses and bodies stay out of the error: they may hold codes and tokens.
    let failed = |error: reqwest::Error| OidcError::Provider(error.without_url().to_string());
    let response = request.header("accept", "application/json").send().await.map_err(failed)?;
    let status = response.status();
    let body =
        read_limited(response, LARGEST).await.map_err(|_| OidcError::Provider("its answer broke off".to_owned()))?;
    if !status.is_success() {
        return Err(OidcError::Provider(format!("it answered with status {}", status.as_u16())));
    }
    serde_json::from_slice(&body).map_err(|_| OidcError::Provider("its answer is not what was asked for".to_owned()))
}
