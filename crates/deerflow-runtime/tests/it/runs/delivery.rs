//! Files for the user.

use super::bench::{Bench, say, thread_id};
use deerflow_core::RunStatus;
use deerflow_core::ports::EventRepo as _;
use deerflow_testkit::{Turn, call};
use serde_json::{Value, json};

fn write(path: &str) -> Turn {
    Turn::calls([call("write_file", json!({"description": "x", "path": path, "content": "# hi"}))])
}

async fn receipt(bench: &Bench) -> Value {
    let rows = bench.store.journal(&thread_id("t"), None, 0, 100).await.unwrap();
    rows.into_iter().rfind(|row| row.row.event == "run.delivery").unwrap().row.content
}

#[tokio::test]
async fn files_that_were_made_must_be_presented() {
    let bench = Bench::start().await;
    bench.model.push(write("/mnt/user-data/outputs/a.md"));
    bench.model.push(Turn::text("there it is"));
    let row = bench.ended(say("t", "make a.md")).await;
    assert_eq!(row.status, RunStatus::Error);
    let error = row.error.unwrap();
    assert!(error.starts_with("Artifact delivery incomplete: ") && error.contains("outputs/a.md"), "{error}");
    assert_eq!(receipt(&bench).await["stage"], "not_started");

    // Only talking about it owes nothing any more.
    bench.model.push(Turn::text("yes"));
    assert_eq!(bench.ended(say("t", "is it there?")).await.status, RunStatus::Success);
    assert_eq!(receipt(&bench).await, json!({"presented": 0, "paths": [], "by_tool": {}}));
}

#[tokio::test]
async fn a_presented_file_is_a_success_and_work_files_owe_nothing() {
    let bench = Bench::start().await;
    bench.model.push(write("/mnt/user-data/outputs/a.md"));
    let present = json!({"description": "x", "filepaths": ["/mnt/user-data/outputs/a.md"]});
    bench.model.push(Turn::calls([call("present_files", present)]));
    bench.model.push(Turn::text("there it is"));
    let row = bench.ended(say("t", "make a.md")).await;
    assert_eq!((row.status, row.error), (RunStatus::Success, None));
    assert_eq!(receipt(&bench).await["matched_paths"], json!(["/mnt/user-data/outputs/a.md"]));
    bench.model.push(write("/mnt/user-data/workspace/b.md"));
    bench.model.push(Turn::text("noted"));
    assert_eq!(bench.ended(say("t", "note it")).await.status, RunStatus::Success);
}
