//! Says which deferred tools a search has made visible.

use super::decided::Decided;
use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, RunId};
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Reports each promotion once, also when two searches of one message find the same tool. Outside of what may still take
/// names away, so that it tells what was really promoted.
#[derive(Default)]
pub struct DeferredToolPromotionAuditMiddleware {
    /// Names reported for a batch of calls: its run and the number of messages before it.
    reported: Mutex<Option<(RunId, usize, HashSet<String>)>>,
}

impl DeferredToolPromotionAuditMiddleware {
    /// Takes the names that no sibling has reported yet.
    fn claim(&self, request: &ToolRequest, names: &[String]) -> Vec<String> {
        let state = &request.context.state;
        let known = state.promoted.as_ref().map(|p| p.names.as_slice()).unwrap_or_default();
        let (run, at) = (request.context.run_id.clone(), state.messages.len());
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.as_ref().is_none_or(|(r, n, _)| *r != run || *n != at) {
            *reported = Some((run, at, HashSet::new()));
        }
        let Some((_, _, seen)) = reported.as_mut() else { return Vec::new() };
        names.iter().filter(|n| !known.contains(n) && seen.insert((*n).clone())).cloned().collect()
    }
}

#[async_trait]
impl Middleware for DeferredToolPromotionAuditMiddleware {
    fn name(&self) -> &'static str {
        "DeferredToolPromotionAuditMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let asked = request.clone();
        let outcome = next.run(request).await?;
        if let Some(promoted) = &outcome.update.promoted {
            let fresh = self.claim(&asked, &promoted.names);
            if !fresh.is_empty() {
                let changes = json!({
                    "catalog_hash": promoted.catalog_hash, "names": fresh, "tool_call_id": asked.call.id(),
                });
                let (tag, hook) = ("tool_promotion", "wrap_tool_call");
                Decided { tag, name: self.name(), hook, action: "promote", changes }.tell(ctx).await;
            }
        }
        Ok(outcome)
    }
}
