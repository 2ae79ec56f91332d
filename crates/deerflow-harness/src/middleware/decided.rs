//! What a middleware has decided about a run: told at once, and kept in the run's journal.

use deerflow_agent::RunContext;
use serde_json::{Value, json};

/// A decision. Facts only: no arguments of calls, which may hold anything.
#[derive(Debug)]
pub(super) struct Decided<'a> {
    /// Kind: the event and the journal row are `middleware:<tag>`.
    pub(super) tag: &'a str,
    /// The middleware.
    pub(super) name: &'a str,
    /// The hook that decided.
    pub(super) hook: &'a str,
    /// What was done.
    pub(super) action: &'a str,
    /// About what, and why.
    pub(super) changes: Value,
}

impl Decided<'_> {
    fn facts(&self) -> Value {
        json!({"name": self.name, "hook": self.hook, "action": self.action, "changes": self.changes})
    }

    /// Writes it down with the step that is being made.
    pub(super) fn record(&self, ctx: &RunContext) {
        ctx.record_decision(self.tag, self.facts());
    }

    /// Writes it down, and tells whoever watches.
    pub(super) async fn tell(self, ctx: &RunContext) {
        self.record(ctx);
        let mut event = self.facts();
        event["type"] = format!("middleware:{}", self.tag).into();
        ctx.events.custom(event).await;
    }
}
