//! The login that `codex login` leaves in `auth.json`.

use crate::factory::EnvLookup;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deerflow_config::Secret;
use deerflow_core::{ModelError, ModelErrorKind};
use secrecy::SecretString;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where the login is.
#[derive(Debug, Clone)]
pub(crate) enum Credentials {
    /// In the CLI's file.
    File(PathBuf),
    /// The profile has the token itself.
    Token(SecretString),
}

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) token: SecretString,
    /// The ChatGPT account, where it is known.
    pub(super) account: Option<String>,
}

/// Why there is no login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("there is no login of the Codex CLI at {}", .0.display())]
    Missing(PathBuf),
    #[error("the login of the Codex CLI at {} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("the Codex CLI is logged in with an API key, not with ChatGPT")]
    ApiKey,
    #[error("the login of the Codex CLI holds no usable token")]
    Damaged,
    #[error("the login of the Codex CLI has expired")]
    Stale,
}

impl Refused {
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::ApiKey => {
                "run `codex login` and choose ChatGPT; or use that key with `use: openai` and `use_responses_api: true`"
            }
            Self::Stale => "run `codex login` again, or use the Codex CLI once: it renews its own login",
            _ => {
                "run `codex login`; `CODEX_AUTH_PATH` or `CODEX_HOME` says where its `auth.json` is, if not in `~/.codex`"
            }
        }
    }
}

impl Credentials {
    /// The profile's own token, else the CLI's file, which has to hold a login: `CODEX_AUTH_PATH`, `auth.json` in
    /// `CODEX_HOME`, `~/.codex/auth.json`. One that has expired is no reason to refuse yet: the CLI may renew it.
    pub(crate) fn find(token: Option<&Secret>, env: EnvLookup<'_>, model: &str) -> Result<Self, ModelError> {
        if let Some(token) = token {
            return Ok(Self::Token(token.expose().trim().into()));
        }
        let set = |name: &str| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let path = set("CODEX_AUTH_PATH")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(set("CODEX_HOME")?).join("auth.json")))
            .or_else(|| Some(PathBuf::from(set("HOME").or_else(|| set("USERPROFILE"))?).join(".codex/auth.json")))
            .unwrap_or_else(|| PathBuf::from(".codex/auth.json"));
        match read(&path, jiff::Timestamp::UNIX_EPOCH) {
            Ok(_) => Ok(Self::File(path)),
            Err(refused) => {
                Err(ModelError::new(ModelErrorKind::Auth, format!("model `{model}`: {refused}"))
                    .with_hint(refused.hint()))
            }
        }
    }

    /// The login as it is now.
    pub(super) async fn read(&self) -> Result<Login, Refused> {
        match self {
            Self::Token(token) => Ok(Login { token: token.clone(), account: None }.with_account(None)),
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read(&path, jiff::Timestamp::now())).await;
                read.unwrap_or(Err(Refused::Damaged))
            }
        }
    }
}

impl Login {
    /// With the account that the file names, else the one in the token.
    fn with_account(mut self, named: Option<&str>) -> Self {
        use secrecy::ExposeSecret as _;
        let claims = claims(self.token.expose_secret());
        let claimed = claims.as_ref().and_then(|claims| {
            claims.get("https://api.openai.com/auth")?.get("chatgpt_account_id")?.as_str().map(str::to_owned)
        });
        self.account = named.filter(|name| !name.is_empty()).map(str::to_owned).or(claimed);
        self
    }
}

fn read(path: &Path, now: jiff::Timestamp) -> Result<Login, Refused> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refused::Missing(path.to_owned()),
        _ => Refused::Unreadable { path: path.to_owned(), why: error.to_string() },
    })?;
    // The reason would show a piece of the file, which is a secret.
    let file: Value = serde_json::from_str(&text).map_err(|error| Refused::Unreadable {
        path: path.to_owned(),
        why: format!("line {} is not JSON", error.line()),
    })?;
    login(&file, now)
}

/// The login in a file: below `tokens`, or plainly in older ones.
fn login(file: &Value, now: jiff::Timestamp) -> Result<Login, Refused> {
    let tokens = file.get("tokens").filter(|tokens| tokens.is_object()).unwrap_or(file);
    let text = |key: &str| tokens.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let Some(token) = text("access_token") else {
        let key = file.get("OPENAI_API_KEY").and_then(Value::as_str).is_some_and(|key| !key.is_empty());
        return Err(if key { Refused::ApiKey } else { Refused::Damaged });
    };
    let expiry = claims(token).and_then(|claims| claims.get("exp")?.as_i64());
    if expiry.is_some_and(|expiry| expiry <= now.as_second()) {
        return Err(Refused::Stale);
    }
    Ok(Login { token: token.into(), account: None }.with_account(text("account_id")))
}

/// What a token says of itself. It is not checked: the service does that.
fn claims(token: &str) -> Option<Value> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use secrecy::ExposeSecret as _;
    use serde_json::json;

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }
    fn read(file: &Value) -> Result<(String, Option<String>), Refused> {
        login(file, jiff::Timestamp::from_second(1_000).unwrap())
            .map(|login| (login.token.expose_secret().to_owned(), login.account))
    }

    #[test]
    fn the_account_comes_from_the_file_or_from_the_token() {
        let claimed = token(&json!({"exp": 2_000, "https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}));
        let nested = json!({"OPENAI_API_KEY": null, "tokens": {"access_token": claimed, "account_id": "acc-2"}});
        assert_eq!(read(&nested), Ok((claimed.clone(), Some("acc-2".into()))));
        assert_eq!(read(&json!({"access_token": claimed})), Ok((claimed, Some("acc-1".into()))));
        assert_eq!(read(&json!({"tokens": {"access_token": "opaque"}})), Ok(("opaque".into(), None)));
    }

    #[test]
    fn what_is_no_login_says_what_to_do() {
        let expired = token(&json!({"exp": 1_000}));
        assert_eq!(read(&json!({"tokens": {"access_token": expired}})), Err(Refused::Stale));
        assert_eq!(read(&json!({"OPENAI_API_KEY": "sk-1", "tokens": null})), Err(Refused::ApiKey));
        assert_eq!(read(&json!({"tokens": {}})), Err(Refused::Damaged));
        assert_eq!(read(&json!([])), Err(Refused::Damaged));
        assert!(Refused::Stale.hint().contains("codex login"));
    }

    #[test]
    fn the_file_is_looked_for_where_the_cli_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home/.codex");
        let other = folder.path().join("other");
        for place in [&home, &other] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join("auth.json"), json!({"tokens": {"access_token": "t"}}).to_string()).unwrap();
        }
        let find = |variables: &[(&str, PathBuf)]| {
            let env = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.display().to_string())
            };
            match Credentials::find(None, &env, "m") {
                Ok(Credentials::File(path)) => Ok(path),
                Ok(Credentials::Token(_)) => panic!("no token was given"),
                Err(error) => Err(error.to_string()),
            }
        };
        let in_home = ("HOME", folder.path().join("home"));
        assert_eq!(find(std::slice::from_ref(&in_home)), Ok(home.join("auth.json")));
        assert_eq!(find(&[in_home.clone(), ("CODEX_HOME", other.clone())]), Ok(other.join("auth.json")));
        let missing = find(&[in_home, ("CODEX_AUTH_PATH", folder.path().join("none.json"))]).unwrap_err();
        assert!(missing.contains("model `m`: there is no login") && missing.contains("codex login"), "{missing}");
        std::fs::write(other.join("auth.json"), "{\"tokens\": {\"access_token\": \"secret-1").unwrap();
        let broken = find(&[("CODEX_HOME", other)]).unwrap_err();
        assert!(broken.contains("line 1 is not JSON") && !broken.contains("secret-1"), "{broken}");
    }
}
