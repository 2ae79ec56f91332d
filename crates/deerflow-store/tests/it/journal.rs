use crate::support::{Driver, count, event, home};
use deerflow_core::ports::{EventRepo as _, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{Message, RunStatus, StateUpdate};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn rows_are_numbered_without_gaps_and_read_back_whole() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let message = Message::ai("long ".repeat(400)).with_id("m");
    let contents: Vec<Value> = vec![
        serde_json::to_value(&message).unwrap(),
        json!({"message": message, "n": 1.5, "nothing": null}),
        json!(null),
        json!(["text", "x".repeat(2000), {"deep": {"deeper": "y".repeat(2000)}}]),
        json!({"$ref": "AAAAAAAAAAAAAAAAAAAAAA"}),
        json!("谢".repeat(1000)),
        json!(7),
    ];
    let mut sent = 0;
    // One to seven rows at once.
    for n in 1..=contents.len() {
        let mut commit = driver.commit(StepKind::Model, Next::Model, vec![]);
        commit.events = contents[..n].iter().cloned().map(event).collect();
        let committed = driver.send(&home.store, commit).await.unwrap();
        assert_eq!(committed.seqs, (sent + 1..=sent + n as u64).collect::<Vec<_>>());
        sent += n as u64;
        assert_eq!(committed.last_seq, sent);
    }
    let rows = home.store.journal(&driver.lineage.thread_id, None, 0, 1000).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), (1..=sent).collect::<Vec<_>>());
    let last: Vec<_> = rows[rows.len() - contents.len()..].iter().map(|row| row.row.content.clone()).collect();
    assert_eq!(last, contents);
    assert!(rows.iter().all(|row| Some(&row.run_id) == driver.run_id.as_ref() && row.row.category == "message"));
    // The message is there once, however often it was journalled.
    assert_eq!(count(&home.path, "SELECT count(*) FROM blobs WHERE instr(data, 'long long') > 0").await, 1);
}

#[tokio::test]
async fn a_run_reads_its_own_rows_and_pages_by_seq() {
    let home = home().await;
    let mut runs = Vec::new();
    for n in 0..3 {
        let mut driver = Driver::bare("t");
        driver.under(&deerflow_core::ports::RunRepo::admit(&home.store, crate::support::new_run("t")).await.unwrap());
        driver.parent = home.store.load(&driver.lineage, None).await.unwrap().map(|checkpoint| checkpoint.id);
        for step in 0..4 {
            let mut commit = driver.commit(StepKind::Model, Next::Model, vec![]);
            commit.events = vec![event(json!({"run": n, "step": step}))];
            driver.send(&home.store, commit).await.unwrap();
        }
        runs.push(driver.run_id.clone().unwrap());
        if n < 2 {
            driver.end(&home.store, RunStatus::Success).await;
        }
    }
    let thread = crate::support::thread_id("t");
    let seqs = async |run: Option<usize>, after, limit| -> Vec<u64> {
        let rows = home.store.journal(&thread, run.map(|n| &runs[n]), after, limit).await.unwrap();
        rows.iter().map(|row| row.seq).collect()
    };
    assert_eq!(seqs(Some(0), 0, 100).await, [1, 2, 3, 4]);
    assert_eq!(seqs(Some(1), 0, 100).await, [5, 6, 7, 8]);
    assert_eq!(seqs(Some(1), 6, 100).await, [7, 8]);
    assert_eq!(seqs(Some(2), 0, 2).await, [9, 10], "a live run");
    assert_eq!(seqs(None, 3, 4).await, [4, 5, 6, 7]);
    assert_eq!(seqs(None, 12, 4).await, Vec::<u64>::new());
    assert_eq!(home.store.journal(&crate::support::thread_id("u"), Some(&runs[0]), 0, 9).await.unwrap(), vec![]);
}

#[tokio::test]
async fn an_edit_from_outside_a_run_is_journalled_too() {
    let home = home().await;
    let mut driver = Driver::bare("t");
    let mut commit = driver.commit(StepKind::Edit, Next::Done, vec![]);
    commit.events = vec![event(json!("edited"))];
    commit.updates = vec![crate::support::frame("edit", StateUpdate::none())];
    driver.send(&home.store, commit).await.unwrap();
    let rows = home.store.journal(&driver.lineage.thread_id, None, 0, 9).await.unwrap();
    assert_eq!((rows[0].run_id.as_str(), rows[0].row.content.clone()), ("-", json!("edited")));
}
