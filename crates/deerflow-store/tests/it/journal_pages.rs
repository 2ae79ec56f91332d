//! Pages of the journal, against a plain model.

use crate::support::{Driver, event, fence, home, new_run, outcome, thread_id};
use deerflow_core::ports::{
    EventRepo as _, JournalQuery, NewJournalRow, RunFilter, RunRepo as _, StepKind, ThreadRepo as _,
};
use deerflow_core::run::Next;
use deerflow_core::{RunId, RunStatus, StoreError, UserId};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

fn row(category: u8, name: u8, task: u8) -> NewJournalRow {
    let row = NewJournalRow::new(["message", "trace"][category as usize], format!("e{name}"), json!({"n": name}));
    if task == 0 { row } else { row.with("task_id", format!("t{task}")).with("usage", json!({"x": [1.5]})) }
}

fn rows() -> impl Strategy<Value = Vec<Vec<NewJournalRow>>> {
    let one = (0..2u8, 0..3u8, 0..3u8).prop_map(|(category, name, task)| row(category, name, task));
    prop::collection::vec(prop::collection::vec(one, 0..6), 1..5)
}

fn query() -> impl Strategy<Value = (Option<usize>, JournalQuery)> {
    let bounds = (prop::option::of(0..25u64), prop::option::of(0..25u64), any::<bool>(), 0..8u32);
    let filters = (
        prop::option::of(0..5usize),
        prop::collection::vec((0..4u8).prop_map(|n| format!("e{n}")), 0..3),
        prop::option::of(prop::sample::select(vec!["message".to_owned(), "trace".to_owned()])),
        prop::option::of(prop::sample::select(vec!["t1".to_owned(), "t2".to_owned()])),
    );
    (bounds, filters).prop_map(|((after_seq, before_seq, newest_first, limit), (run, events, category, task_id))| {
        let query =
            JournalQuery { run_id: None, after_seq, before_seq, events, category, task_id, newest_first, limit };
        (run, query)
    })
}

fn fits(seq: u64, row: &NewJournalRow, query: &JournalQuery) -> bool {
    query.after_seq.is_none_or(|after| seq > after)
        && query.before_seq.is_none_or(|before| seq < before)
        && (query.events.is_empty() || query.events.contains(&row.event))
        && query.category.as_ref().is_none_or(|category| *category == row.category)
        && query.task_id.as_ref().is_none_or(|task| row.metadata.get("task_id") == Some(&json!(task)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn pages_agree_with_a_list(runs in rows(), queries in prop::collection::vec(query(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = home().await;
            let user = UserId::local();
            let mut model: Vec<(u64, usize, NewJournalRow)> = Vec::new();
            let mut ids = Vec::new();
            for (n, rows) in runs.iter().enumerate() {
                let run = home.store.admit(new_run("t")).await.unwrap();
                home.store.finish(&fence(&run), outcome(RunStatus::Success), rows.clone()).await.unwrap();
                ids.push(run.run_id);
                for row in rows {
                    model.push((model.len() as u64 + 1, n, row.clone()));
                }
            }
            for (run, mut query) in queries {
                query.run_id = run.map(|n| ids.get(n).cloned().unwrap_or_else(RunId::random));
                let mut expected: Vec<_> = model
                    .iter()
                    .filter(|(seq, n, row)| run.is_none_or(|run| run == *n) && fits(*seq, row, &query))
                    .map(|(seq, n, row)| (*seq, ids[*n].clone(), row.clone()))
                    .collect();
                if query.newest_first {
                    expected.reverse();
                }
                expected.truncate(query.limit as usize);
                let found = home.store.journal_page(&user, &thread_id("t"), query.clone()).await.unwrap();
                let found: Vec<_> = found.into_iter().map(|row| (row.seq, row.run_id, row.row)).collect();
                assert_eq!(found, expected, "{query:?}");
            }
            home.store.close().await;
        });
    }
}

#[tokio::test]
async fn a_row_keeps_its_metadata_whichever_way_it_is_written() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let row = event(json!({"a": 1})).with("caller", "lead_agent").with("deep", json!({"谢": [null, 1.5]}));
    for kind in [StepKind::Input, StepKind::Model, StepKind::Effects] {
        let mut commit = driver.commit(kind, Next::Model, vec![]);
        commit.events = vec![row.clone()];
        driver.send(&home.store, commit).await.unwrap();
    }
    let fence = driver.fence.clone().unwrap();
    home.store.finish(&fence, outcome(RunStatus::Success), vec![row.clone()]).await.unwrap();
    let found = home.store.journal(&driver.lineage.thread_id, None, 0, 9).await.unwrap();
    assert_eq!(found.into_iter().map(|row| row.row).collect::<Vec<_>>(), vec![row; 4]);
}

#[tokio::test]
async fn runs_are_paged_and_counted() {
    let home = home().await;
    let user = UserId::local();
    let mut ids = Vec::new();
    for n in 0..6 {
        let row = home.store.admit(new_run(["a", "b"][n % 2])).await.unwrap();
        let status = [RunStatus::Success, RunStatus::Error, RunStatus::Interrupted][n % 3];
        home.store.finish(&fence(&row), outcome(status), vec![]).await.unwrap();
        ids.insert(0, row.run_id);
    }
    let filter = |thread: Option<&str>, status: &[RunStatus], limit, offset| RunFilter {
        thread_id: thread.map(thread_id),
        status: status.to_vec(),
        limit,
        offset,
    };
    let ended = [RunStatus::Success, RunStatus::Interrupted];
    for (filter, expected, count) in [
        (filter(None, &[], 2, 0), vec![0, 1], 6),
        (filter(None, &[], 2, 2), vec![2, 3], 6),
        (filter(None, &[], 9, 5), vec![5], 6),
        (filter(None, &[], 9, 6), vec![], 6),
        (filter(None, &ended, 9, 1), vec![2, 3, 5], 4),
        (filter(Some("a"), &[], 1, 1), vec![3], 3),
        (filter(Some("b"), &ended, 9, 0), vec![0, 2], 2),
    ] {
        let found = home.store.runs(&user, filter.clone()).await.unwrap();
        let expected: Vec<_> = expected.into_iter().map(|n: usize| &ids[n]).collect();
        assert_eq!(found.iter().map(|row| &row.run_id).collect::<Vec<_>>(), expected, "{filter:?}");
        assert_eq!(home.store.count_runs(&user, filter).await.unwrap(), count);
    }
}

#[tokio::test]
async fn a_deleted_run_leaves_the_conversation_whole() {
    let home = home().await;
    let user = UserId::local();
    let live = home.store.admit(new_run("t")).await.unwrap();
    let busy = home.store.delete_run(&user, &live.run_id).await;
    assert!(
        matches!(&busy, Err(StoreError::ThreadBusy { run_id, .. }) if *run_id == live.run_id.to_string()),
        "{busy:?}"
    );
    home.store.finish(&fence(&live), outcome(RunStatus::Success), vec![row(0, 1, 0)]).await.unwrap();
    let eve = UserId::parse("eve").unwrap();
    assert!(matches!(home.store.delete_run(&eve, &live.run_id).await, Err(StoreError::NotFound { .. })));

    home.store.delete_run(&user, &live.run_id).await.unwrap();
    assert_eq!(home.store.run(&live.run_id).await.unwrap(), None);
    assert!(matches!(home.store.delete_run(&user, &live.run_id).await, Err(StoreError::NotFound { .. })));
    for run_id in [None, Some(live.run_id.clone())] {
        let query = JournalQuery { run_id, limit: 9, ..JournalQuery::default() };
        assert_eq!(home.store.journal_page(&user, &thread_id("t"), query).await.unwrap().len(), 1);
    }
    let thread = home.store.thread(&user, &thread_id("t")).await.unwrap().unwrap();
    assert_eq!(thread.status, "idle");
    home.store.admit(new_run("t")).await.unwrap();
}
