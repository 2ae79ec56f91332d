//! What happens, as it happens: the events of a run.
//!
//! ```text
//! cargo run -p deerflow --example streaming
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use deerflow::prelude::*;
use std::sync::Arc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new())).build()?;
    // Bounded: a reader that stops reading makes the run wait, not the memory grow.
    let (events, mut seen) = EventSink::channel(64);
    let run = async move {
        let ctx = conversation_with("streamed", events)?;
        anyhow::Ok(agent.run(&ctx, say("What can you do?")).await?)
    };
    let watch = async move {
        let mut text = String::new();
        // Ends when the run is over and its sink is gone.
        while let Some(event) = seen.recv().await {
            match event {
                AgentEvent::ModelStarted { model, .. } => println!("[{model} begins]"),
                // Shown at once, and void if `ModelDiscarded` follows.
                AgentEvent::ModelDelta { delta, .. } => text.push_str(&delta.text),
                AgentEvent::Message(message) => println!("[whole message: {}]", message.role()),
                AgentEvent::Update(update) => println!("[{} wrote to the state]", update.node),
                // Everything before this is durable.
                AgentEvent::Committed { .. } => println!("[step stored]"),
                _ => {}
            }
        }
        text
    };
    let (done, streamed) = tokio::join!(run, watch);
    let answer = done?.state.last_ai().map(|m| m.text().into_owned()).unwrap_or_default();
    println!("streamed the whole answer: {}", streamed == answer);
    println!("{answer}");
    Ok(())
}
