//! The embedded client in a program of its own. That it gives what the server gives is shown by the gateway's tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use deerflow::client::{BuildError, ClientBuilder, ClientError, DeerFlowClient};
use deerflow::prelude::*;
use deerflow::runtime::StreamMode;
use deerflow::service::{HistoryQuery, Reader, RefusalKind, RunBody};
use futures::StreamExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn on_host(home: &Path) -> ClientBuilder {
    // A file of its own, so that none of the machine is read.
    let file = home.join("config.yaml");
    std::fs::write(&file, "sandbox:\n  use: host\n").unwrap();
    DeerFlowClient::builder().config_file(file).home(home)
}

#[tokio::test]
async fn a_program_that_does_not_answer_its_children_gets_no_isolated_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let built = on_host(home.path()).set("sandbox.use", "isolated").build().await;
    assert!(matches!(built, Err(BuildError::Children)));
    let built = on_host(home.path()).model("alien").build().await.err().unwrap();
    assert!(built.to_string().contains("\"alien\"; hint: known models: "), "{built}");
    let built = on_host(home.path()).set("sandbox.bash_command_timeout", "soon").build().await;
    assert!(matches!(built, Err(BuildError::Config(_))));
}

#[tokio::test]
async fn conversations_survive_the_client() {
    let home = tempfile::tempdir().unwrap();
    let thread = "kept".parse().unwrap();
    let client = on_host(home.path()).chat_model(Arc::new(OfflineModel::new())).build().await.unwrap();
    assert_eq!(client.models().models[0].name, "offline");
    let first = client.chat_on(&thread, "What can you do?").await.unwrap();
    let stream = client.stream(&thread, "And what else?", &[StreamMode::Updates]).await.unwrap();
    let run = stream.run_id().clone();
    let frames: Vec<_> = stream.collect().await;
    assert_eq!((frames[0].event.as_str(), frames.last().unwrap().event.as_str()), ("metadata", "end"));
    let middle = frames[frames.len() / 2].id.unwrap();
    client.close(Duration::from_secs(5)).await;

    let client = on_host(home.path()).model("offline").build().await.unwrap();
    let values = client.thread(&thread).await.unwrap().values;
    let said: Vec<_> = values["messages"].as_array().unwrap().iter().filter(|m| m["type"] == "ai").collect();
    assert_eq!((said.len(), said[0]["content"].as_str()), (2, Some(first.as_str())));
    // A reader of long ago goes on where it was cut off.
    let rest: Vec<_> = client.join(&thread, &run, DeerFlowClient::after(middle)).await.unwrap().collect().await;
    assert!(rest.iter().all(|frame| frame.id.is_none_or(|id| id > middle)));
    assert_eq!(rest.last().unwrap().event, "end");
    let again: Vec<_> = client.join(&thread, &run, Reader::default()).await.unwrap().collect().await;
    assert_eq!((again[0].event.as_str(), again.last().unwrap().event.as_str()), ("metadata", "end"));
    let history = client.history(&thread, HistoryQuery { limit: 2, ..HistoryQuery::default() }).await.unwrap();
    assert_eq!(history.len(), 2);
    client.close(Duration::ZERO).await;
}

#[tokio::test]
async fn bodies_say_what_texts_cannot() {
    let home = tempfile::tempdir().unwrap();
    let client = on_host(home.path()).build().await.unwrap();
    let body = RunBody::say("x").with_context("model_name", "alien");
    let refused = client.wait(&"t".parse().unwrap(), body).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::BadRequest);
    assert_eq!(refused.to_string(), "Model 'alien' is not in the configured model allowlist");
    // Nothing was made on the way.
    assert_eq!(client.threads(Default::default()).await.unwrap().len(), 0);
    client.close(Duration::ZERO).await;
}

#[tokio::test]
async fn what_is_no_file_is_refused_before_any_is_taken_in() {
    let home = tempfile::tempdir().unwrap();
    let client = on_host(home.path()).build().await.unwrap();
    let thread = "files".parse().unwrap();
    let (good, folder) = (home.path().join("good.csv"), home.path().join("folder"));
    std::fs::write(&good, "name,sum\nann,3\n").unwrap();
    std::fs::create_dir(&folder).unwrap();
    let refused = client.upload_files(&thread, &[&good, &folder]).await.unwrap_err();
    assert!(matches!(&refused, ClientError::File { path, .. } if *path == folder), "{refused}");
    assert_eq!(client.uploads(&thread).await.unwrap().count, 0);
    // Documents are converted in this process here.
    let uploaded = client.upload_files(&thread, &[&good]).await.unwrap();
    assert_eq!(uploaded.files[0].markdown_file.as_deref(), Some("good.md"));
    let (bytes, media_type) = client.artifact(&thread, "/mnt/user-data/uploads/good.md").await.unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("| ann | 3 |"));
    assert_eq!(media_type, "text/markdown; charset=utf-8");
    client.close(Duration::ZERO).await;
}
