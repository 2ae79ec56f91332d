//! `deerflow users`: accounts, for the operator.

use super::{say, say_json};
use crate::app;
use crate::cli::UsersCommand;
use crate::failure::Failure;
use crate::render::printable_line;
use deerflow_config::Secret;
use deerflow_core::StoreError;
use deerflow_core::ports::{SystemRole, UserPatch, UserRepo, UserRow};
use deerflow_gateway::{AccountError, Accounts, random_password};
use serde_json::json;
use std::io::Read as _;
use std::path::PathBuf;

/// Longest text that is read as a password, in bytes.
const LONGEST: u64 = 4096;
/// Accounts that are listed at most.
const LISTED: u32 = 10_000;

pub(crate) async fn users(config: Option<PathBuf>, command: UsersCommand) -> Result<(), Failure> {
    let config = app::load_config(config)?;
    let store = app::open_store(&config).await?;
    let result = match command {
        UsersCommand::List { json } => list(&*store, json).await,
        UsersCommand::Create { email, admin, password_stdin } => create(&*store, &email, admin, password_stdin).await,
        UsersCommand::Reset { email, password_stdin } => reset(&*store, &email, password_stdin).await,
        UsersCommand::Role { email, role } => set_role(&*store, &email, &role).await,
    };
    store.close().await;
    result
}

async fn list(store: &impl UserRepo, json: bool) -> Result<(), Failure> {
    let users = store.users(LISTED, 0).await.map_err(Failure::run)?;
    if json {
        let users = users.iter().map(|user| {
            json!({
                "id": user.user_id,
                "email": user.email,
                "system_role": user.system_role.as_str(),
                "oauth_provider": user.oauth.as_ref().map(|oauth| &oauth.provider),
            })
        });
        return say_json(&users.collect::<Vec<_>>());
    }
    if users.is_empty() {
        say("there are no accounts; make the first with: deerflow users create you@example.com --admin");
    }
    for user in users {
        say(&format!("{:<6} {}  {}", user.system_role.as_str(), printable_line(&user.email), user.user_id));
    }
    Ok(())
}

async fn create(store: &impl UserRepo, email: &str, admin: bool, from_stdin: bool) -> Result<(), Failure> {
    let (password, made_up) = password(from_stdin)?;
    let accounts = Accounts::default();
    let first = store.count_admins().await.map_err(Failure::run)? == 0;
    let made = if admin && first {
        accounts.initialize(store, email, &password).await
    } else {
        let role = if admin { SystemRole::Admin } else { SystemRole::User };
        accounts.create(store, email, &password, role).await
    };
    let user = made.map_err(explain)?;
    say(&format!("made the account {} ({})", printable_line(&user.email), user.system_role.as_str()));
    show(&password, made_up);
    Ok(())
}

async fn reset(store: &impl UserRepo, email: &str, from_stdin: bool) -> Result<(), Failure> {
    let user = find(store, email).await?;
    let (password, made_up) = password(from_stdin)?;
    Accounts::default().change(store, &user.user_id, &password, None).await.map_err(explain)?;
    say(&format!("{} has a new password; its sessions have ended", printable_line(&user.email)));
    show(&password, made_up);
    Ok(())
}

async fn set_role(store: &impl UserRepo, email: &str, role: &str) -> Result<(), Failure> {
    let user = find(store, email).await?;
    let patch = UserPatch { system_role: SystemRole::from_name(role), ..UserPatch::default() };
    let user = store.patch_user(&user.user_id, patch).await.map_err(|error| match error {
        StoreError::BadInput { .. } => Failure::usage(format!("{} is the only administrator", user.email)),
        other => Failure::run(other),
    })?;
    say(&format!("{} is {} now", printable_line(&user.email), user.system_role.as_str()));
    Ok(())
}

/// The account of this address.
pub(super) async fn find(store: &impl UserRepo, email: &str) -> Result<UserRow, Failure> {
    let user = store.user_by_email(email.trim()).await.map_err(Failure::run)?;
    user.ok_or_else(|| Failure::usage(format!("there is no account {email}; hint: deerflow users list")))
}

/// A password from standard input, or one that is made up and has to be shown.
fn password(from_stdin: bool) -> Result<(Secret, bool), Failure> {
    if !from_stdin {
        return Ok((random_password(), true));
    }
    let mut text = String::new();
    std::io::stdin()
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("cannot read the password: {error}")))?;
    Ok((text.trim_end_matches(['\n', '\r']).into(), false))
}

fn show(password: &Secret, made_up: bool) {
    if made_up {
        say(&format!("password, shown this once: {}", password.expose()));
    }
}

fn explain(error: AccountError) -> Failure {
    match error {
        AccountError::Store(_) | AccountError::Hash(_) => Failure::run(error),
        other => Failure::usage(other),
    }
}
