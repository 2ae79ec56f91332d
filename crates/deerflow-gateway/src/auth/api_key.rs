//! Personal API keys: how they look, and where requests carry them.

use axum::http::{HeaderMap, header};
use deerflow_config::Secret;
use deerflow_core::ports::ApiKeyHash;
use sha2::{Digest as _, Sha256};

/// Every key of ours starts with it. Whatever does not is somebody else's, and none of our business.
const PREFIX: &str = "df_";
/// Characters by which the owner knows a key again.
const SHOWN: usize = 11;

/// A new key; it is shown once.
#[derive(Debug, Clone)]
pub struct FreshApiKey {
    /// The key.
    pub key: Secret,
    /// What of it is kept to be seen.
    pub prefix: String,
    /// What of it is kept to be checked.
    pub hash: ApiKeyHash,
}

impl FreshApiKey {
    /// A key of 256 random bits.
    #[must_use]
    pub fn generate() -> Self {
        let key = format!("{PREFIX}{}", super::random_text(32));
        Self { prefix: key.chars().take(SHOWN).collect(), hash: hash(&key), key: key.into() }
    }
}

/// What is stored of a key.
pub(crate) fn hash(key: &str) -> ApiKeyHash {
    ApiKeyHash(Sha256::digest(key.as_bytes()).into())
}

/// Our key of a request: `Authorization: Bearer df_…` or `x-api-key: df_…`. LangGraph's SDKs send an `x-api-key` that they
/// find in the environment, of another service; it is as if it were not there.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, key) = value.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let named = headers.get("x-api-key").and_then(|value| value.to_str().ok()).map(str::trim);
    bearer.into_iter().chain(named).find(|key| key.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_keys_are_told_from_others() {
        let found = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            presented(&headers).map(str::to_owned)
        };
        assert_eq!(found(&[("authorization", "Bearer df_a")]).as_deref(), Some("df_a"));
        assert_eq!(found(&[("authorization", "bearer  df_a")]).as_deref(), Some("df_a"));
        assert_eq!(found(&[("x-api-key", "df_b")]).as_deref(), Some("df_b"));
        assert_eq!(found(&[("authorization", "Bearer df_a"), ("x-api-key", "lsv2_pt_x")]).as_deref(), Some("df_a"));
        assert_eq!(found(&[("authorization", "Bearer other"), ("x-api-key", "df_b")]).as_deref(), Some("df_b"));
        assert_eq!(found(&[("authorization", "Basic df_a"), ("x-api-key", "lsv2_pt_x")]), None);
        assert_eq!(found(&[("x-api-key", "")]), None);
    }

    #[test]
    fn keys_differ_and_do_not_show() {
        let (one, two) = (FreshApiKey::generate(), FreshApiKey::generate());
        assert_ne!(one.key, two.key);
        assert_eq!(one.key.expose().len(), 46);
        assert_eq!(one.hash, hash(one.key.expose()));
        assert!(one.key.expose().starts_with(&one.prefix) && one.prefix.len() == 11);
        assert!(!format!("{one:?}").contains(one.key.expose()));
    }
}
