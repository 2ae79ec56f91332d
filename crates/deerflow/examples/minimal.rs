//! The smallest agent: a model, and nothing else said.
//!
//! ```text
//! cargo run -p deerflow --example minimal
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use deerflow::prelude::*;
use std::sync::Arc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Any `ChatModel` will do; this one needs no key and no network.
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new())).build()?;
    let done = agent.run(&conversation("minimal")?, say("What can you do?")).await?;
    let answer = done.state.last_ai().map(|message| message.text().into_owned()).unwrap_or_default();
    println!("{answer}");
    Ok(())
}
