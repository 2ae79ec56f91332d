//! Accounts.

use crate::support::{fence, home, new_run, outcome, thread_id};
use deerflow_core::ports::{
    NewUser, OauthIdentity, RunFilter, RunRepo as _, SystemRole, ThreadRepo as _, UserPatch, UserRepo as _, UserRow,
};
use deerflow_core::{JsonMap, RunStatus, StoreError, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use std::sync::Arc;

fn user_id(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn new_user(name: &str) -> NewUser {
    NewUser {
        user_id: user_id(name),
        email: format!("{name}@Example.org"),
        password_hash: Some(format!("hash of {name}")),
        system_role: SystemRole::User,
        needs_setup: false,
        oauth: None,
    }
}

fn identity(id: &str) -> OauthIdentity {
    OauthIdentity { provider: "idp".into(), id: id.into() }
}

fn taken(result: Result<UserRow, StoreError>) -> &'static str {
    match result {
        Err(StoreError::Exists { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_account_reads_back_by_id_address_and_identity() {
    let home = home().await;
    let mut new = new_user("ada");
    new.oauth = Some(identity("1"));
    new.needs_setup = true;
    let row = home.store.create_user(new.clone()).await.unwrap();
    assert!(row.created_at > 1_700_000_000_000_000);
    let expected = UserRow {
        user_id: new.user_id.clone(),
        email: new.email,
        password_hash: new.password_hash,
        system_role: SystemRole::User,
        needs_setup: true,
        token_version: 0,
        oauth: new.oauth,
        created_at: row.created_at,
    };
    assert_eq!(row, expected);
    assert!(!format!("{row:?}").contains("hash of"));
    for found in [
        home.store.user(&user_id("ada")).await.unwrap(),
        home.store.user_by_email("ADA@example.ORG").await.unwrap(),
        home.store.user_by_oauth(&identity("1")).await.unwrap(),
    ] {
        assert_eq!(found.as_ref(), Some(&expected));
    }
    assert_eq!(home.store.user(&user_id("bob")).await.unwrap(), None);
    assert_eq!(home.store.user_by_email("ada@example.com").await.unwrap(), None);
    assert_eq!(home.store.user_by_oauth(&identity("2")).await.unwrap(), None);
}

#[tokio::test]
async fn what_identifies_an_account_belongs_to_one() {
    let home = home().await;
    let mut ada = new_user("ada");
    ada.oauth = Some(identity("1"));
    ada.email = "Ärger@example.org".into();
    home.store.create_user(ada).await.unwrap();
    home.store.create_user(new_user("bob")).await.unwrap();

    let mut other = new_user("eve");
    other.email = "äRGER@EXAMPLE.org".into();
    assert_eq!(taken(home.store.create_user(other.clone()).await), "email");
    other.email = "eve@example.org".into();
    other.oauth = Some(identity("1"));
    assert_eq!(taken(home.store.create_user(other.clone()).await), "oauth identity");
    other.oauth = None;
    other.user_id = user_id("bob");
    assert_eq!(taken(home.store.create_user(other).await), "user");
    let patch = UserPatch { email: Some("ärger@example.org".into()), ..UserPatch::default() };
    assert_eq!(taken(home.store.patch_user(&user_id("bob"), patch).await), "email");
    let patch = UserPatch { oauth: Some(identity("1")), ..UserPatch::default() };
    assert_eq!(taken(home.store.patch_user(&user_id("bob"), patch).await), "oauth identity");
    // One's own address in another case is no conflict.
    let patch = UserPatch { email: Some("BOB@example.org".into()), ..UserPatch::default() };
    assert_eq!(home.store.patch_user(&user_id("bob"), patch).await.unwrap().email, "BOB@example.org");
    for email in [String::new(), "x".repeat(321)] {
        let bad = home.store.create_user(NewUser { email, ..new_user("eve") }).await;
        assert!(matches!(bad, Err(StoreError::BadInput { field: "email", .. })), "{bad:?}");
    }
    let ids: Vec<_> = home.store.users(10, 0).await.unwrap().into_iter().map(|row| row.user_id).collect();
    assert_eq!(ids, [user_id("ada"), user_id("bob")]);
    assert_eq!(home.store.users(1, 1).await.unwrap()[0].user_id, user_id("bob"));
}

#[tokio::test]
async fn of_many_first_administrators_one_is_made() {
    let home = home().await;
    home.store.create_user(new_user("early")).await.unwrap();
    let other = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
    let stores = [Arc::new(home.store), Arc::new(other)];
    let attempts = (0..16).map(|n| {
        let store = Arc::clone(&stores[n % 2]);
        async move { store.create_first_admin(new_user(&format!("u{n}"))).await.unwrap() }
    });
    let made: Vec<UserRow> = futures::future::join_all(attempts).await.into_iter().flatten().collect();
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].system_role, SystemRole::Admin);
    assert_eq!(stores[0].count_admins().await.unwrap(), 1);
    assert_eq!(stores[1].users(99, 0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_new_password_or_role_ends_sessions_and_nothing_else_does() {
    let home = home().await;
    home.store.create_first_admin(new_user("root")).await.unwrap().unwrap();
    home.store.create_user(new_user("ada")).await.unwrap();
    let ada = user_id("ada");
    let none = UserPatch::default;
    let mut version = 0;
    for (patch, ends) in [
        (UserPatch { password_hash: Some("new".into()), ..none() }, true),
        (UserPatch { needs_setup: Some(true), ..none() }, false),
        (UserPatch { system_role: Some(SystemRole::User), ..none() }, false),
        (UserPatch { system_role: Some(SystemRole::Admin), ..none() }, true),
        (UserPatch { oauth: Some(identity("7")), email: Some("a@b".into()), ..none() }, false),
        (UserPatch { end_sessions: true, ..none() }, true),
    ] {
        version += u64::from(ends);
        assert_eq!(home.store.patch_user(&ada, patch).await.unwrap().token_version, version);
    }
    let row = home.store.user(&ada).await.unwrap().unwrap();
    assert_eq!(
        (row.email.as_str(), row.password_hash.as_deref(), row.system_role, row.needs_setup, row.oauth),
        ("a@b", Some("new"), SystemRole::Admin, true, Some(identity("7")))
    );
    let missing = home.store.patch_user(&user_id("bob"), none()).await;
    assert!(matches!(missing, Err(StoreError::NotFound { what: "user", .. })));
}

#[tokio::test]
async fn the_last_administrator_stays_one() {
    let home = home().await;
    home.store.create_first_admin(new_user("root")).await.unwrap().unwrap();
    let demote = UserPatch { system_role: Some(SystemRole::User), ..UserPatch::default() };
    let refused = home.store.patch_user(&user_id("root"), demote.clone()).await;
    assert!(matches!(refused, Err(StoreError::BadInput { field: "system_role", .. })), "{refused:?}");
    home.store.create_user(NewUser { system_role: SystemRole::Admin, ..new_user("ada") }).await.unwrap();
    home.store.patch_user(&user_id("root"), demote).await.unwrap();
    assert_eq!(home.store.count_admins().await.unwrap(), 1);
}

#[tokio::test]
async fn claimed_threads_come_with_their_runs_and_busy_ones_stay() {
    let home = home().await;
    let (from, to, eve) = (UserId::local(), user_id("root"), user_id("eve"));
    let ended = home.store.admit(new_run("ended")).await.unwrap();
    home.store.finish(&fence(&ended), outcome(RunStatus::Success), vec![]).await.unwrap();
    home.store.admit(new_run("busy")).await.unwrap();
    home.store.create_thread(&from, &thread_id("empty"), JsonMap::new()).await.unwrap();
    home.store.create_thread(&eve, &thread_id("hers"), JsonMap::new()).await.unwrap();

    let mut claimed = home.store.claim_threads(&from, &to).await.unwrap();
    claimed.sort();
    assert_eq!(claimed, [thread_id("empty"), thread_id("ended")]);
    let names = async |user: &UserId| -> Vec<String> {
        let rows = home.store.threads(user, 9, 0).await.unwrap();
        rows.into_iter().map(|row| row.thread_id.to_string()).collect()
    };
    assert_eq!(names(&from).await, ["busy"]);
    assert_eq!(names(&eve).await, ["hers"]);
    assert_eq!(names(&to).await.len(), 2);
    let runs = home.store.runs(&to, RunFilter::default()).await.unwrap();
    assert_eq!(runs.iter().map(|run| &run.run_id).collect::<Vec<_>>(), [&ended.run_id]);
    assert_eq!(home.store.runs(&from, RunFilter::default()).await.unwrap().len(), 1);
    assert_eq!(home.store.claim_threads(&to, &to).await.unwrap(), vec![]);
    assert_eq!(home.store.claim_threads(&from, &to).await.unwrap(), vec![]);
}
