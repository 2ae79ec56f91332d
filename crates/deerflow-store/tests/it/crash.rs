//! `kill -9` in the middle of writing: what was acknowledged is there, and nothing is there in part.

use crate::support::{Driver, count, event, frame};
use deerflow_core::ports::{EventRepo as _, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{Message, StateUpdate};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Set for the child: the database it writes to.
const DATABASE: &str = "DEERFLOW_STORE_CRASH_DATABASE";
const THREADS: usize = 4;

/// Not a test by itself: the child of the one below runs it until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_commits_until_it_is_killed() {
    let Some(path) = std::env::var_os(DATABASE).map(PathBuf::from) else { return };
    let store = SqliteStore::open(&path, StoreOptions::default()).await.unwrap();
    let threads = (0..THREADS).map(|thread| {
        let store = &store;
        async move {
            let mut driver = Driver::bare(&format!("t{thread}"));
            for n in 0.. {
                let update =
                    StateUpdate::messages([Message::ai(format!("{n} {}", "x".repeat(700))).with_id(n.to_string())]);
                let mut commit = driver.commit(StepKind::Model, Next::Model, vec![frame("model", update)]);
                commit.events = vec![event(json!({"n": n})), event(json!("second"))];
                let seqs = driver.send(store, commit).await.unwrap().seqs;
                // One write, so that lines of the threads do not mix.
                std::io::stderr().lock().write_all(format!("ack {thread} {n} {}\n", seqs[1]).as_bytes()).unwrap();
            }
        }
    });
    futures::future::join_all(threads).await;
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_minus_nine() {
    for kill_after in [1, 40, 333] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deerflow.db");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_that_commits_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(DATABASE, &path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut acknowledged = [None; THREADS];
        let mut lines = 0;
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            if let ["ack", thread, n, seq] = words[..] {
                acknowledged[thread.parse::<usize>().unwrap()] =
                    Some((n.parse::<u64>().unwrap(), seq.parse::<u64>().unwrap()));
                lines += 1;
                if lines == kill_after {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(lines >= kill_after, "the child wrote {lines} lines");

        let store = SqliteStore::open(&path, StoreOptions::default()).await.unwrap();
        for (thread, acknowledged) in acknowledged.iter().enumerate() {
            let Some((n, seq)) = *acknowledged else { continue };
            let lineage = Driver::bare(&format!("t{thread}")).lineage;
            let head = store.load(&lineage, None).await.unwrap().unwrap();
            let messages = head.state.messages.len() as u64;
            // The last one may be written and not acknowledged.
            assert!(messages == n + 1 || messages == n + 2, "{messages} messages, step {n} acknowledged");
            for (n, message) in head.state.messages.iter().enumerate() {
                assert_eq!(message.id(), n.to_string());
                assert!(message.text().starts_with(&format!("{n} ")));
            }
            let rows = store.journal(&lineage.thread_id, None, 0, u32::MAX).await.unwrap();
            assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), (1..=2 * messages).collect::<Vec<_>>());
            assert!(rows.len() as u64 >= seq);
        }
        store.close().await;
        assert_eq!(count(&path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'").await, 0);
    }
}
