//! A middleware of your own, with durable state, placed beside a built-in one.
//!
//! ```text
//! cargo run -p deerflow --example own_middleware
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use async_trait::async_trait;
use deerflow::harness::middleware::LoopDetectionMiddleware;
use deerflow::prelude::*;
use std::sync::Arc;

/// Counts the model turns of a thread, over all its runs, and tells the model when it is the first.
struct TurnCounter;

/// A place in the thread's state: typed, stored with every step, hidden from clients.
const TURNS: StateSlot<u32> = StateSlot::new("TurnCounter");

#[async_trait]
impl Middleware for TurnCounter {
    fn name(&self) -> &'static str {
        "TurnCounter"
    }

    /// What a hook returns is written to the state with the step that it belongs to.
    async fn before_model(&self, _ctx: &RunContext, state: &ThreadState) -> HookResult {
        Ok(Hook::update(TURNS.put(&(TURNS.get(state).unwrap_or(0) + 1))))
    }

    /// A changed request is not stored: it is for this one call.
    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if TURNS.get(state) == Some(1) {
            request.messages.push(Arc::new(Message::human("This is the first turn: be welcoming.").hidden()));
        }
        next.run(request).await
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new()))
        .extra_middleware([Extra::prev::<LoopDetectionMiddleware>(TurnCounter)])
        .build()?;
    println!("chain: {:?}", agent.chain().iter().map(|m| m.name()).collect::<Vec<_>>());
    for text in ["Hello!", "And now?"] {
        let done = agent.run(&conversation("counted")?, say(text)).await?;
        println!("model turns so far: {}", TURNS.get(&done.state).unwrap_or(0));
    }
    Ok(())
}
