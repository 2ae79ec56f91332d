//! Conversations as things to keep in order: history, forks, a run taken back, pruning; and a home that goes away.

use crate::support::{World, story};
use deerflow_core::ports::ThreadRepo;
use deerflow_core::{JsonMap, ThreadId, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use deerflow_testkit::{Gate, Turn, call, eventually};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

fn write(path: &str, content: &str) -> Turn {
    Turn::calls([call("write_file", json!({"description": "d", "path": path, "content": content}))])
}

async fn history(world: &World, thread: &str) -> Vec<Value> {
    let ran = world.run(&["threads", "history", thread, "--json"]).await.expect_code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[tokio::test]
async fn a_fork_has_its_own_history_and_its_own_files() {
    let world = World::scripted().await;
    world.model().push(write("/mnt/user-data/workspace/a.txt", "one"));
    world.model().push(Turn::text("first"));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    let rows = history(&world, "t").await;
    let kinds: Vec<_> = rows.iter().map(|r| (r["kind"].as_str().unwrap(), r["next"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("end", "done"), ("model", "end"), ("tools", "model"), ("model", "tools"), ("input", "model")]);
    assert_eq!(rows[0]["parent_checkpoint_id"], rows[1]["checkpoint_id"]);
    let plain = world.run(&["threads", "history", "t", "--limit", "2"]).await.expect_code(0).stdout;
    assert_eq!(plain.lines().count(), 2);
    assert!(plain.starts_with(rows[0]["checkpoint_id"].as_str().unwrap()), "{plain}");

    let said = world.run(&["threads", "fork", "t", "--name", "twin"]).await.expect_code(0);
    assert!(said.stdout.contains("forked t to twin, with 1 files"), "{}", said.stdout);
    let file = |thread: &str| world.path(&format!("users/default/threads/{thread}/user-data/workspace/a.txt"));
    let (old, new) = (file("t").metadata().unwrap(), file("twin").metadata().unwrap());
    assert!(old.ino() != new.ino() && new.nlink() == 1 && old.uid() == new.uid());
    // The twin goes its own way, and can write to what it got.
    world.model().push(write("/mnt/user-data/workspace/a.txt", "two"));
    world.model().push(Turn::text("second"));
    world.run(&["run", "on", "--thread", "twin"]).await.expect_code(0);
    assert_eq!(std::fs::read_to_string(file("t")).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(file("twin")).unwrap(), "two");
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: ", "tool: OK", "ai: first"]);
    assert_eq!(story(&world.state("twin").await).last().unwrap(), "ai: second");

    let at = rows[4]["checkpoint_id"].as_str().unwrap();
    let early = world.run(&["threads", "fork", "t", "--at", at, "--json"]).await.expect_code(0);
    let early: Value = serde_json::from_str(&early.stdout).unwrap();
    assert_eq!(story(&world.state(early["thread_id"].as_str().unwrap()).await), ["human: go"]);
    for args in [vec!["fork", "t", "--name", "twin"], vec!["fork", "t", "--at", "nowhere"], vec!["fork", "nobody"]] {
        let args: Vec<&str> = std::iter::once("threads").chain(args).collect();
        world.run(&args).await.expect_code(2);
    }
    let threads = std::fs::read_dir(world.path("users/default/threads")).unwrap().count();
    assert_eq!(threads, 3, "a refused fork leaves no files");
    world.model().assert_legal();
}

#[tokio::test]
async fn undo_takes_the_last_run_back_and_keeps_the_files() {
    let world = World::scripted().await;
    world.model().push(Turn::text("first"));
    world.run(&["run", "one", "--thread", "t"]).await.expect_code(0);
    world.model().push(write("/mnt/user-data/outputs/a.md", "x"));
    world.model().push(Turn::text("second"));
    world.run(&["run", "a mistake", "--thread", "t"]).await.expect_code(0);
    let said = world.run(&["threads", "undo", "t"]).await.expect_code(0).stdout;
    assert!(said.contains("took back the last run of t: a mistake") && said.contains("4 messages are gone"), "{said}");
    assert_eq!(story(&world.state("t").await), ["human: one", "ai: first"]);
    assert!(world.path("users/default/threads/t/user-data/outputs/a.md").exists());
    world.run(&["resume", "t"]).await.expect_code(2);
    world.model().push(Turn::text("third"));
    world.run(&["run", "again", "--thread", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: one", "ai: first", "human: again", "ai: third"]);
    world.run(&["threads", "undo", "nobody"]).await.expect_code(2);
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "more", "--thread", "t", "--json"]);
    gate.reached().await;
    assert!(world.run(&["threads", "undo", "t"]).await.expect_code(1).stderr.contains("Ctrl-C"));
    running.kill();
    world.run(&["threads", "undo", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await).last().unwrap(), "ai: third");
    world.model().assert_legal();
}

#[tokio::test]
async fn a_thread_is_migrated_between_modes() {
    let world = World::scripted().await;
    world.model().push(Turn::text("first"));
    world.run(&["run", "one", "--thread", "t"]).await.expect_code(0);
    world.run(&["threads", "migrate", "t", "--to", "sideways"]).await.expect_code(2);
    assert!(world.run(&["threads", "migrate", "t", "--to", "delta"]).await.expect_code(0).stdout.contains("delta"));
    world.run(&["threads", "migrate", "t", "--to", "full"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: one", "ai: first"]);
    world.run(&["threads", "migrate", "nobody", "--to", "full"]).await.expect_code(2);
}

#[tokio::test]
async fn pruning_deletes_what_is_old_with_its_files_and_keeps_what_is_live() {
    let world = World::scripted().await;
    world.model().push(Turn::text("first"));
    world.run(&["run", "one", "--thread", "old"]).await.expect_code(0);
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "live", "--thread", "live", "--json"]);
    gate.reached().await;
    let none = world.run(&["threads", "prune", "--older-than", "30d", "--yes"]).await.expect_code(0);
    assert!(none.stdout.contains("no conversation is that old"), "{}", none.stdout);
    world.run(&["threads", "prune", "--older-than", "soon"]).await.expect_code(2);
    let age = ["threads", "prune", "--older-than", "1s"];
    let dry = eventually("the thread is old enough", || async {
        let ran = world.run(&[&age[..], &["--dry-run"]].concat()).await.expect_code(0);
        ran.stdout.contains("would be deleted").then_some(ran.stdout)
    })
    .await;
    assert!(dry.starts_with("old  ") && !dry.contains("live"), "{dry}");
    assert!(world.path("users/default/threads/old").exists());
    assert!(world.run(&age).await.expect_code(2).stderr.contains("--yes"));
    let said = world.run(&[&age[..], &["--yes"]].concat()).await.expect_code(0);
    assert!(said.stdout.contains("deleted 1"), "{}", said.stdout);
    assert!(!world.path("users/default/threads/old").exists());
    assert!(world.path("users/default/threads/live").exists());
    world.run(&["threads", "show", "old"]).await.expect_code(2);
    running.kill();
    // A run whose process is dead keeps nothing.
    eventually("the cut off thread is old enough", || async {
        let ran = world.run(&[&age[..], &["--dry-run"]].concat()).await.expect_code(0);
        ran.stdout.contains("live  ").then_some(())
    })
    .await;
    let said = world.run(&[&age[..], &["--yes"]].concat()).await.expect_code(0);
    assert!(said.stdout.contains("live  ") && said.stdout.contains("deleted 1"), "{}", said.stdout);
    assert!(!world.path("users/default/threads/live").exists());
    assert_eq!(world.run(&["threads", "list"]).await.stdout.trim(), "no threads yet");
}

/// A file for a run that is refused does not stay behind.
#[tokio::test]
async fn a_refused_run_leaves_no_file() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    std::fs::write(world.path("notes.txt"), "n").unwrap();
    let notes = world.path("notes.txt");
    let ran = world.run(&["run", "more", "--thread", "t", "-f", notes.to_str().unwrap()]).await.expect_code(1);
    assert!(ran.stderr.contains("active run"), "{}", ran.stderr);
    assert!(!world.path("users/default/threads/t/user-data/uploads/notes.txt").exists());
    running.kill();
}

/// Also when it is the database that refuses, after the copy: here the thread is somebody else's.
#[tokio::test]
async fn a_run_refused_by_the_database_leaves_no_file() {
    let world = World::scripted().await;
    world.run(&["threads", "list"]).await.expect_code(0);
    let store = SqliteStore::open(&world.path("data/deerflow.db"), StoreOptions::default()).await.unwrap();
    let (stranger, thread) = (UserId::parse("stranger").unwrap(), ThreadId::parse("theirs").unwrap());
    store.create_thread(&stranger, &thread, JsonMap::new()).await.unwrap();
    store.close().await;
    std::fs::write(world.path("notes.txt"), "n").unwrap();
    let notes = world.path("notes.txt");
    world.run(&["run", "more", "--thread", "theirs", "-f", notes.to_str().unwrap()]).await.expect_code(1);
    assert!(!world.path("users/default/threads/theirs").exists());
}

/// SQLite would go on writing into a file that is gone, and the run would end in success with nothing kept.
#[tokio::test]
async fn a_home_that_goes_away_is_no_success() {
    let world = World::scripted().await;
    let home = world.path("inner");
    std::fs::create_dir(&home).unwrap();
    std::fs::copy(world.path("config.yaml"), world.path("elsewhere.yaml")).unwrap();
    let gate = Gate::new();
    world.model().push(Turn::text("done").hold(&gate));
    let mut command = world.command(&["run", "go", "--thread", "t"]);
    command.env("DEER_FLOW_HOME", &home).env("DEER_FLOW_CONFIG_PATH", world.path("elsewhere.yaml"));
    let run = tokio::task::spawn_blocking(move || crate::support::Ran::from(command.output().unwrap()));
    gate.reached().await;
    std::fs::remove_dir_all(&home).unwrap();
    gate.open();
    let ran = run.await.unwrap().expect_code(1);
    assert!(ran.stderr.contains("was removed while the run worked"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("deerflow resume"), "{}", ran.stderr);
    assert!(!home.join("users").exists(), "it does not make the folder anew");
}

#[tokio::test]
async fn a_conversation_is_compacted_on_demand() {
    let world = World::scripted_with(
        "summarization:\n  enabled: true\n  trigger: {type: messages, value: 4}\n  keep: {type: messages, value: 2}\n",
    )
    .await;
    world.model().push(Turn::text("first"));
    world.run(&["run", "one", "--thread", "t"]).await.expect_code(0);
    // Nothing is due yet.
    world.run(&["threads", "compact", "t"]).await.expect_code(2);
    world.model().push(Turn::text("second"));
    world.run(&["run", "two", "--thread", "t"]).await.expect_code(0);
    world.model().push_auxiliary(Turn::text("They said one and first."));
    let done = world.run(&["threads", "compact", "t", "--json"]).await.expect_code(0);
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(done["compacted"], true);
    assert_eq!(done["removed_message_count"].as_u64().unwrap() + done["preserved_message_count"].as_u64().unwrap(), 4);
    let left = story(&world.state("t").await);
    assert!(
        !left.contains(&"human: one".to_owned()) && left.ends_with(&["human: two".into(), "ai: second".into()]),
        "{left:?}"
    );
    world.run(&["threads", "compact", "nobody"]).await.expect_code(2);
    world.model().assert_legal();
}
