//! `deerflow keys`: personal keys, for the operator.

use super::users::find;
use super::{say, say_json};
use crate::app;
use crate::cli::KeysCommand;
use crate::failure::Failure;
use crate::render::printable_line;
use deerflow_core::ports::{ApiKeyRepo, ApiKeyRow, NewApiKey, UserRepo};
use deerflow_core::{StoreError, UserId};
use deerflow_gateway::FreshApiKey;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) async fn keys(config: Option<PathBuf>, command: KeysCommand) -> Result<(), Failure> {
    let config = app::load_config(config)?;
    let store = app::open_store(&config).await?;
    let result = match command {
        KeysCommand::Create { name, user, expires_in, quiet } => create(&*store, name, user, expires_in, quiet).await,
        KeysCommand::List { user, json } => list(&*store, user, json).await,
        KeysCommand::Revoke { key, user } => revoke(&*store, &key, user).await,
    };
    store.close().await;
    result
}

/// Whose keys are meant. The first account is the local user, also before it is made.
async fn owner(store: &impl UserRepo, email: Option<String>) -> Result<UserId, Failure> {
    match email {
        Some(email) => Ok(find(store, &email).await?.user_id),
        None => Ok(UserId::local()),
    }
}

async fn create(
    store: &(impl UserRepo + ApiKeyRepo),
    name: String,
    user: Option<String>,
    expires_in: Option<Duration>,
    quiet: bool,
) -> Result<(), Failure> {
    let owner = owner(store, user).await?;
    let fresh = FreshApiKey::generate();
    let expires_at = expires_in.map(|age| {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        jiff::Timestamp::now().as_microsecond().saturating_add(age)
    });
    let key = NewApiKey { name, hash: fresh.hash, prefix: fresh.prefix, expires_at };
    store.create_api_key(&owner, key).await.map_err(|error| match error {
        StoreError::BadInput { .. } => Failure::usage(error),
        other => Failure::run(other),
    })?;
    let key = fresh.key.expose();
    if quiet {
        say(key);
        return Ok(());
    }
    say(&format!("key, shown this once: {key}"));
    say(&format!("use it as: curl -H \"Authorization: Bearer {key}\" http://127.0.0.1:2026/api/models"));
    Ok(())
}

async fn list(store: &(impl UserRepo + ApiKeyRepo), user: Option<String>, json: bool) -> Result<(), Failure> {
    let keys = store.api_keys(&owner(store, user).await?).await.map_err(Failure::run)?;
    if json {
        let keys = keys.iter().map(|key| {
            json!({
                "id": key.key_id,
                "name": key.name,
                "prefix": key.prefix,
                "created_at": time(Some(key.created_at)),
                "last_used_at": time(key.last_used_at),
                "expires_at": time(key.expires_at),
            })
        });
        return say_json(&keys.collect::<Vec<_>>());
    }
    if keys.is_empty() {
        say("there are no keys; make one with: deerflow keys create NAME");
    }
    for ApiKeyRow { key_id, name, prefix, last_used_at, .. } in keys {
        let used = time(last_used_at);
        let used = used.as_str().unwrap_or("never");
        say(&format!("{key_id}  {prefix}…  last used {used}  {}", printable_line(&name)));
    }
    Ok(())
}

async fn revoke(store: &(impl UserRepo + ApiKeyRepo), key: &str, user: Option<String>) -> Result<(), Failure> {
    let owner = owner(store, user).await?;
    let keys = store.api_keys(&owner).await.map_err(Failure::run)?;
    let meant: Vec<&ApiKeyRow> =
        keys.iter().filter(|row| row.key_id == key || (!key.is_empty() && row.prefix.starts_with(key))).collect();
    let row = match meant.as_slice() {
        [row] => row,
        [] => return Err(Failure::usage("there is no such key; hint: deerflow keys list")),
        _ => {
            return Err(Failure::usage(
                "several keys begin like this; hint: give the id, as deerflow keys list shows it",
            ));
        }
    };
    store.revoke_api_key(&owner, &row.key_id).await.map_err(Failure::run)?;
    say(&format!("revoked {}… ({})", row.prefix, printable_line(&row.name)));
    Ok(())
}

/// ISO 8601.
fn time(micros: Option<i64>) -> Value {
    micros
        .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok())
        .map_or(Value::Null, |time| json!(time.to_string()))
}
