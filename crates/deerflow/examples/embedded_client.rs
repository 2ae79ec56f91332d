//! A whole installation in this process: a thread with a file, two turns, a stream, and the history of it all.
//!
//! ```text
//! cargo run -p deerflow --example embedded_client
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use deerflow::prelude::*;
use deerflow::runtime::StreamMode;
use deerflow::service::HistoryQuery;
use futures::StreamExt as _;
use std::time::Duration;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    // The isolated sandbox would need `deerflow::answer_children()` before anything else, in a `main` without tokio's macro.
    let client =
        DeerFlowClient::builder().home(home.path()).model("offline").set("sandbox.use", "host").build().await?;

    let thread = "notes".parse()?;
    let text = b"# Minutes\n\nSales fell by 12 percent because of the strike in March.\n".to_vec();
    let uploaded = client.upload_bytes(&thread, "minutes.md", text).await?;
    println!("{}: {}", uploaded.message, uploaded.files[0].virtual_path);

    let answer = client.chat_on(&thread, "What can you do?").await?;
    println!("a first turn: {} characters", answer.chars().count());

    // The same turn as `deerflow serve` would stream it. Who stops reading leaves the run to itself.
    let mut stream = client.stream(&thread, "And what else?", &[StreamMode::MessagesTuple, StreamMode::Values]).await?;
    let (mut pieces, mut last) = (0, None);
    while let Some(frame) = stream.next().await {
        match frame.event.as_str() {
            "messages" => pieces += 1,
            "values" => last = Some(frame.data),
            _ => {}
        }
    }
    let run = client.run(&thread, stream.run_id()).await?;
    println!(
        "a second turn: {}, {} pieces, state shown: {}",
        run.status,
        if pieces > 1 { "many" } else { "few" },
        last.is_some()
    );

    let state = client.state(&thread).await?;
    let history = client.history(&thread, HistoryQuery { limit: 100, ..HistoryQuery::default() }).await?;
    println!("questions asked: {}", humans(&state.values));
    println!("the newest of the history is the state: {}", history[0]["checkpoint_id"] == state.checkpoint_id.as_str());
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

/// How many messages of the state people wrote and see.
fn humans(values: &serde_json::Value) -> usize {
    let messages = values["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let seen = |message: &&serde_json::Value| {
        message["type"] == "human" && message["additional_kwargs"]["hide_from_ui"] != serde_json::json!(true)
    };
    messages.iter().filter(seen).count()
}
