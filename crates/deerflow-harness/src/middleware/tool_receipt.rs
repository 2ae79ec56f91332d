//! Receipts: what every tool call was and what came back, noted by the harness and never by a model.
//!
//! A receipt lies on the result it belongs to. Numbered in the order of the conversation, they are the ledger that a model
//! may cite from, `[r3 bash]`, and that its claims are held against: see [`verify_citations`]. What can be checked without
//! believing anybody, a file that should be there or a command that should have passed, is checked by
//! [`acceptance_checks`]. Both verdicts are evidence for whoever decides; neither decides.

mod acceptance;
mod citations;
mod commands;
mod config;
mod ledger;
mod receipt;

pub use acceptance::{AcceptanceLeaf, AcceptanceVerdict, acceptance_checks};
pub use citations::{CitationFailure, ReceiptVerdict, verify_citations};
pub use commands::{CommandRun, command_runs};
pub use config::{ReceiptRenderMode, VerificationConfig};
pub use ledger::{RECEIPT_LEDGER, SUBAGENT_RECEIPTS, ledger_of};
pub use receipt::{Receipt, TOOL_RECEIPT, receipts};

use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, ChatRequest, Message, ThreadState};
use ledger::Ledger;
use serde_json::{Value, json};
use std::sync::Arc;

/// Marks the message that shows the ledger in a request.
const LEDGER_CONTEXT: &str = "deerflow_tool_receipt_context";
/// On the result of a delegation.
const SUBAGENT_STATUS: &str = "subagent_status";

/// What a verdict can never say; stands with each.
const LIMITATION: &str = "evidence of execution only, no judgement whether the claims are right";

/// Outside every gate that answers in place of a tool, so that no call is without a receipt.
pub struct ToolReceiptMiddleware {
    mode: ReceiptRenderMode,
}

impl ToolReceiptMiddleware {
    /// Shows the ledger to the model in this mode. A sub-agent's is always [`ReceiptRenderMode::Always`]: it is who cites.
    #[must_use]
    pub fn new(mode: ReceiptRenderMode) -> Self {
        Self { mode }
    }

    fn shows(&self, messages: &[Arc<Message>]) -> bool {
        match self.mode {
            ReceiptRenderMode::Always => true,
            ReceiptRenderMode::DelegationOnly => {
                let turn = messages.iter().rposition(|m| m.is_genuine_user()).map_or(0, |at| at + 1);
                messages[turn..].iter().filter(|m| m.as_tool().is_some()).any(|m| {
                    m.additional_kwargs
                        .get(SUBAGENT_STATUS)
                        .is_some_and(|status| !matches!(status, Value::Null | Value::Bool(false)) && status != "")
                })
            }
        }
    }
}

#[async_trait]
impl Middleware for ToolReceiptMiddleware {
    fn name(&self) -> &'static str {
        "ToolReceiptMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let call = request.call.clone();
        let mut outcome = next.run(request).await?;
        // Always anew: a tool cannot bring its own.
        receipt::stamp(&call, &mut outcome.message);
        for message in &mut outcome.update.messages {
            match message.as_tool().map(|part| part.tool_call_id == call.id()) {
                Some(true) => receipt::stamp(&call, Arc::make_mut(message)),
                Some(false) if message.additional_kwargs.contains_key(TOOL_RECEIPT) => {
                    Arc::make_mut(message).additional_kwargs.remove(TOOL_RECEIPT);
                }
                _ => {}
            }
        }
        Ok(outcome)
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let ledger = if self.shows(&request.messages) { Ledger::render(&request.messages) } else { None };
        let Some(ledger) = ledger else { return next.run(request).await };
        // At the end: in front of the history it would change the start of every request and void the provider's cache.
        let shown = Message::human(ledger.text).hidden().with_kwarg(LEDGER_CONTEXT, true);
        request.messages.push(Arc::new(shown));
        let mut reply = next.run(request).await?;
        reply.additional_kwargs.insert(RECEIPT_LEDGER.to_owned(), json!(ledger.shown));
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
