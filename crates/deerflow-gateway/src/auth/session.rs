//! Sessions: signed tokens in a cookie. The database knows nothing of them but the version that they must have.

use crate::error::ApiError;
use deerflow_config::Secret;
use deerflow_core::UserId;
use deerflow_core::ports::UserRow;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, get_current_timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a session says (claims of a JWT, HS256).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// The user.
    pub(crate) sub: UserId,
    /// When it ends, in seconds since 1970.
    pub(crate) exp: u64,
    /// When it began.
    pub(crate) iat: u64,
    /// The account's token version at that time.
    pub(crate) ver: u64,
}

/// Signs and checks tokens.
pub(crate) struct Signer {
    signing: EncodingKey,
    checking: DecodingKey,
}

/// A token does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadToken {
    /// It did once.
    Expired,
    /// It never did here.
    Invalid,
}

impl From<BadToken> for ApiError {
    fn from(bad: BadToken) -> Self {
        match bad {
            BadToken::Expired => Self::unauthorized("token_expired", "Token has expired"),
            BadToken::Invalid => Self::unauthorized("token_invalid", "Invalid token"),
        }
    }
}

impl Signer {
    /// With this key. `None` when the library refuses it, an empty one.
    pub(crate) fn new(key: &Secret) -> Option<Self> {
        let key = key.expose().as_bytes();
        Some(Self { signing: EncodingKey::from_secret(key).ok()?, checking: DecodingKey::from_secret(key).ok()? })
    }

    /// A session of this account for `seconds`.
    pub(crate) fn session(&self, user: &UserRow, seconds: u64) -> Result<String, ApiError> {
        let iat = get_current_timestamp();
        self.sign(&Claims { sub: user.user_id.clone(), exp: iat + seconds, iat, ver: user.token_version })
    }

    /// The claims of a session.
    pub(crate) fn read_session(&self, token: &str) -> Result<Claims, BadToken> {
        self.check(token, None)
    }

    pub(crate) fn sign(&self, claims: &impl Serialize) -> Result<String, ApiError> {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &self.signing)
            .map_err(|error| ApiError::internal(&error))
    }

    /// The claims of a token for this audience. One for another audience, or for none, does not hold.
    pub(crate) fn check<T: DeserializeOwned>(&self, token: &str, audience: Option<&str>) -> Result<T, BadToken> {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = 0;
        if let Some(audience) = audience {
            validation.set_audience(&[audience]);
            validation.set_required_spec_claims(&["exp", "aud"]);
        }
        jsonwebtoken::decode(token, &self.checking, &validation).map(|token| token.claims).map_err(|error| match error
            .kind()
        {
            ErrorKind::ExpiredSignature => BadToken::Expired,
            _ => BadToken::Invalid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_token_holds_only_as_it_was_signed() {
        let signer = Signer::new(&"k".repeat(40).as_str().into()).unwrap();
        let stranger = Signer::new(&"s".repeat(40).as_str().into()).unwrap();
        let now = get_current_timestamp();
        let claims = Claims { sub: UserId::local(), exp: now + 60, iat: now, ver: 3 };
        let token = signer.sign(&claims).unwrap();
        assert_eq!(signer.read_session(&token), Ok(claims.clone()));
        assert_eq!(stranger.read_session(&token), Err(BadToken::Invalid));
        let old = signer.sign(&Claims { exp: now - 1, ..claims.clone() }).unwrap();
        assert_eq!(signer.read_session(&old), Err(BadToken::Expired));

        // Neither without a signature, nor with a part of it, nor one that was made for something else.
        let parts: Vec<&str> = token.split('.').collect();
        let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
        for bad in [
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            token[..token.len() - 2].to_owned(),
            String::new(),
            "a.b.c".to_owned(),
        ] {
            assert_eq!(signer.read_session(&bad), Err(BadToken::Invalid), "{bad}");
        }
        let other =
            signer.sign(&json!({"sub": "default", "exp": now + 60, "iat": now, "ver": 3, "aud": "oidc"})).unwrap();
        assert_eq!(signer.read_session(&other), Err(BadToken::Invalid));
        assert!(signer.check::<Value>(&other, Some("oidc")).is_ok());
        assert_eq!(signer.check::<Value>(&token, Some("oidc")), Err(BadToken::Invalid));
    }
}
