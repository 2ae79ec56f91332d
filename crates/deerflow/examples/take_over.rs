//! Full take-over: exactly your middlewares, nothing built in. You are responsible for all of it.
//!
//! ```text
//! cargo run -p deerflow --example take_over
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use async_trait::async_trait;
use deerflow::harness::middleware::{DanglingToolCallMiddleware, ToolErrorHandlingMiddleware};
use deerflow::prelude::*;
use std::sync::Arc;

/// Answers from a note instead of asking the model, when it has one.
struct Notes;

#[async_trait]
impl Middleware for Notes {
    fn name(&self) -> &'static str {
        "Notes"
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let asked = request.messages.iter().rev().find(|m| m.is_real_user()).map(|m| m.text().to_lowercase());
        if asked.is_some_and(|text| text.contains("opening hours")) {
            // Not calling `next` skips the model.
            return Ok(Message::ai("Monday to Friday, 9 to 17 o'clock."));
        }
        next.run(request).await
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let chain: [Arc<dyn Middleware>; 3] =
        [Arc::new(Notes), Arc::new(DanglingToolCallMiddleware), Arc::new(ToolErrorHandlingMiddleware)];
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new())).middleware(chain).build()?;
    println!("chain: {:?}, tools: {}", agent.chain().iter().map(|m| m.name()).collect::<Vec<_>>(), agent.tools().len());
    let done = agent.run(&conversation("desk")?, say("What are your opening hours?")).await?;
    println!("{}", done.state.last_ai().map(|m| m.text().into_owned()).unwrap_or_default());
    // With a take-over there are no features to choose; saying both is an error that says so.
    let both = create_deerflow_agent(Arc::new(OfflineModel::new())).middleware([]).features(RuntimeFeatures::default());
    if let Err(error) = both.build() {
        println!("error: {error}");
    }
    Ok(())
}
