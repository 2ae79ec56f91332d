//! The authorisation code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0).

use super::discovery::{Endpoints, read};
use super::{Oidc, OidcError, OidcProviderConfig, TokenAuth};
use crate::auth::random_text;
use crate::auth::session::Signer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, get_current_timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

/// How long somebody may take to log in there, in seconds.
pub(crate) const STATE_SECONDS: u64 = 300;
/// What tokens of this kind are for.
const AUDIENCE: &str = "oidc-state";
/// Signatures of tokens that are accepted: those that need the provider's private key.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// What is remembered, in a signed cookie, while somebody logs in there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    aud: String,
    exp: u64,
    provider: String,
    state: String,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    /// Where to go then.
    pub(crate) next: String,
    /// Whether the login outlives the browser.
    pub(crate) remember: bool,
}

/// Who somebody is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Identity {
    /// The provider's id.
    pub(crate) sub: String,
    /// Address.
    pub(crate) email: Option<String>,
    /// Whether the provider has seen to it that the address is theirs.
    #[serde(default, deserialize_with = "truth")]
    pub(crate) email_verified: bool,
}

/// Some providers write it as a text.
fn truth<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value == true || value == "true")
}

#[derive(Deserialize)]
struct IdToken {
    #[serde(flatten)]
    identity: Identity,
    nonce: Option<String>,
    azp: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

impl Oidc {
    /// Address to send somebody to, and the cookie to remember it by.
    pub(crate) async fn begin(
        &self,
        signer: &Signer,
        id: &str,
        redirect_uri: String,
        next: String,
        remember: bool,
    ) -> Result<(Url, String), OidcError> {
        let provider = self.provider(id)?;
        let endpoints = self.discovery.endpoints(&self.http, id, provider).await?;
        let state = State {
            aud: AUDIENCE.to_owned(),
            exp: get_current_timestamp() + STATE_SECONDS,
            provider: id.to_owned(),
            state: random_text(32),
            nonce: random_text(32),
            verifier: random_text(48),
            redirect_uri,
            next,
            remember,
        };
        let mut address = Url::parse(&endpoints.authorization_endpoint)
            .map_err(|_| OidcError::Provider("its authorization endpoint is no address".to_owned()))?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(state.verifier.as_bytes()));
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &provider.client_id)
            .append_pair("redirect_uri", &state.redirect_uri)
            .append_pair("scope", &provider.scopes.join(" "))
            .append_pair("state", &state.state)
            .append_pair("nonce", &state.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let cookie = signer.sign(&state).map_err(|_| OidcError::State)?;
        Ok((address, cookie))
    }

    /// What was remembered, if it is about this provider and this answer of its.
    pub(crate) fn recall(&self, signer: &Signer, id: &str, cookie: &str, state: &str) -> Result<State, OidcError> {
        self.provider(id)?;
        let remembered: State = signer.check(cookie, Some(AUDIENCE)).map_err(|_| OidcError::State)?;
        let same = bool::from(remembered.state.as_bytes().ct_eq(state.as_bytes()));
        if same && remembered.provider == id { Ok(remembered) } else { Err(OidcError::State) }
    }

    /// Exchanges the code for who somebody is.
    pub(crate) async fn finish(&self, id: &str, remembered: &State, code: &str) -> Result<Identity, OidcError> {
        let provider = self.provider(id)?;
        let endpoints = self.discovery.endpoints(&self.http, id, provider).await?;
        let tokens: Tokens = read(self.exchange(provider, &endpoints, remembered, code)).await?;
        let mut identity = self.check(id, provider, &endpoints, remembered, &tokens.id_token).await?;
        if identity.email.is_none()
            && let (Some(address), Some(token)) = (&endpoints.userinfo_endpoint, &tokens.access_token)
        {
            let told: Identity = read(self.http.get(address).bearer_auth(token)).await?;
            // Core 5.3.2: what is told of somebody else is not to be used.
            if told.sub != identity.sub {
                return Err(OidcError::Token("the user information is about somebody else"));
            }
            identity = told;
        }
        Ok(identity)
    }

    /// The request that exchanges a code.
    fn exchange(
        &self,
        provider: &OidcProviderConfig,
        endpoints: &Endpoints,
        remembered: &State,
        code: &str,
    ) -> reqwest::RequestBuilder {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &remembered.redirect_uri)
            .append_pair("code_verifier", &remembered.verifier);
        let mut request = self.http.post(&endpoints.token_endpoint);
        let secret = provider.client_secret.as_ref().map(|secret| secret.expose()).unwrap_or_default();
        match provider.token_endpoint_auth_method {
            TokenAuth::ClientSecretBasic => {
                // RFC 6749, 2.3.1: both are encoded as in a form first.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                request = request.basic_auth(encoded(&provider.client_id), Some(encoded(secret)));
            }
            TokenAuth::ClientSecretPost => {
                form.append_pair("client_id", &provider.client_id).append_pair("client_secret", secret);
            }
            TokenAuth::None => {
                form.append_pair("client_id", &provider.client_id);
            }
        }
        request.header("content-type", "application/x-www-form-urlencoded").body(form.finish())
    }

    /// Core 3.1.3.7: signature, issuer, audience, time and nonce of an id token.
    async fn check(
        &self,
        id: &str,
        provider: &OidcProviderConfig,
        endpoints: &Endpoints,
        remembered: &State,
        token: &str,
    ) -> Result<Identity, OidcError> {
        let header = decode_header(token).map_err(|_| OidcError::Token("it cannot be read"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(OidcError::Token("it is signed in a way that is not accepted"));
        }
        let keys = self.discovery.keys(&self.http, id, &endpoints.jwks_uri, header.kid.as_deref()).await?;
        let key = match &header.kid {
            Some(key_id) => keys.find(key_id),
            // Without a name there must be no choice.
            None => keys.keys.first().filter(|_| keys.keys.len() == 1),
        };
        let key = key.ok_or(OidcError::Token("it is signed with an unknown key"))?;
        let key = DecodingKey::from_jwk(key).map_err(|_| OidcError::Token("it is signed with an unusable key"))?;
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&provider.client_id]);
        validation.set_issuer(&[&endpoints.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let token: IdToken = decode(token, &key, &validation)
            .map_err(|error| {
                // The kind alone: it holds nothing of the token.
                tracing::debug!(provider = id, kind = ?error.kind(), "an id token does not hold");
                OidcError::Token("it does not hold")
            })?
            .claims;
        if token.nonce.as_deref() != Some(remembered.nonce.as_str()) {
            return Err(OidcError::Token("it answers another login"));
        }
        if token.azp.is_some_and(|party| party != provider.client_id) {
            return Err(OidcError::Token("it is for another client"));
        }
        Ok(token.identity)
    }
}
