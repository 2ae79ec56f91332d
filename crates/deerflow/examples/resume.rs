//! A run that is cut off goes on from its last stored step, in another process if need be.
//!
//! ```text
//! cargo run -p deerflow --example resume
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use async_trait::async_trait;
use deerflow::prelude::*;
use deerflow::store::StoreOptions;
use std::sync::Arc;

/// Breaks the first run off right before the model is asked, as a crash would.
struct PowerCut;

#[async_trait]
impl Middleware for PowerCut {
    fn name(&self) -> &'static str {
        "PowerCut"
    }
    async fn before_model(&self, ctx: &RunContext, _state: &ThreadState) -> HookResult {
        ctx.cancel.cancel();
        Err(AgentError::Cancelled)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("deerflow.db");
    {
        let store = Arc::new(SqliteStore::open(&database, StoreOptions::default()).await?);
        let agent = create_deerflow_agent(Arc::new(OfflineModel::new()))
            .extra_middleware([PowerCut])
            .checkpointer(store.clone())
            .build()?;
        let ended = agent.run(&conversation("long-job")?, say("What can you do?")).await;
        println!("first run: {}", ended.map(|_| "finished".to_owned()).unwrap_or_else(|error| error.to_string()));
        store.close().await;
    }
    // Another process, later: same database, same thread.
    let store = Arc::new(SqliteStore::open(&database, StoreOptions::default()).await?);
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new())).checkpointer(store.clone()).build()?;
    let done = agent.run(&conversation("long-job")?, Start::Resume).await?;
    let roles: Vec<_> = done.state.messages.iter().map(|message| message.role()).collect();
    println!("resumed: {:?}, {roles:?}", done.outcome.status);
    println!("{}", done.state.last_ai().map(|m| m.text().into_owned()).unwrap_or_default());
    store.close().await;
    Ok(())
}
