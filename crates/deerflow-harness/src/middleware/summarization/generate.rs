//! The summary itself.

use super::transcript;
use crate::thoughts::spoken;
use deerflow_agent::{RunContext, side_call};
use deerflow_core::{AgentError, ChatModel, ChatRequest, Message, Usage, text};
use std::sync::Arc;
use std::time::Duration;

/// Longest summary that is kept, in characters: what the model is shown of it later.
pub(crate) const SUMMARY_CHARS: usize = 6000;
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(120);
/// What stands for messages that say nothing.
const NOTHING_SAID: &str = "(Nothing of note was said before this.)";

/// Makes a model when it is needed. The error says why there is none.
pub type ModelSource = Arc<dyn Fn() -> Result<Arc<dyn ChatModel>, String> + Send + Sync>;

/// No model wrote a summary; the conversation is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no summary could be written: {}", if .reasons.is_empty() { "there is no model that can".to_owned() } else { .reasons.join("; ") })]
pub struct SummaryGenerationError {
    /// What went wrong with each model.
    pub reasons: Vec<String>,
}

/// A summary, and what it cost.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) usage: Usage,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Failure {
    /// No model could.
    Generation(SummaryGenerationError),
    /// The run cannot go on.
    Run(AgentError),
}

/// What a summary is made with.
pub(super) struct Writer<'a> {
    pub(super) candidates: &'a [ModelSource],
    pub(super) template: Option<&'a str>,
    pub(super) trim_tokens: Option<u64>,
}

impl Writer<'_> {
    /// Merges `messages` into the summary so far. The first candidate that succeeds counts.
    pub(super) async fn write(
        &self,
        ctx: &RunContext,
        previous: Option<&str>,
        messages: &[Arc<Message>],
    ) -> Result<Summary, Failure> {
        let mut reasons = Vec::new();
        let mut tried: Vec<String> = Vec::new();
        for candidate in self.candidates {
            let model = match candidate() {
                Ok(model) => model,
                Err(reason) => {
                    reasons.push(reason);
                    continue;
                }
            };
            let info = model.info();
            if tried.contains(&info.name) {
                continue;
            }
            tried.push(info.name.clone());
            if info.provider == crate::models::OFFLINE {
                reasons.push("the built-in offline model writes no summaries".to_owned());
                continue;
            }
            match self.by(ctx, &model, previous, messages).await {
                Ok(summary) => return Ok(summary),
                Err(error) if error.is_cancelled() => return Err(Failure::Run(AgentError::Cancelled)),
                Err(error @ AgentError::Store(_)) => return Err(Failure::Run(error)),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(Failure::Generation(SummaryGenerationError { reasons }))
    }

    async fn by(
        &self,
        ctx: &RunContext,
        model: &Arc<dyn ChatModel>,
        previous: Option<&str>,
        messages: &[Arc<Message>],
    ) -> Result<Summary, AgentError> {
        let window = model.info().context_window.unwrap_or(super::config::ASSUMED_WINDOW);
        let budget = self.trim_tokens.unwrap_or(u64::MAX).min(window / 2);
        let mut parts = if previous.is_some() { Vec::new() } else { transcript::parts(messages, budget) };
        if previous.is_some() || parts.len() > 1 {
            // From the second part on there is a summary to merge into.
            parts = transcript::parts(messages, budget / 2);
        }
        let mut summary = previous.map(str::to_owned);
        let mut usage = Usage::default();
        for part in parts {
            let prompt = transcript::prompt(self.template, summary.as_deref(), &part, budget);
            let request = ChatRequest { messages: vec![Arc::new(Message::human(prompt))], ..ChatRequest::default() };
            let reply = side_call(ctx, model, request, "middleware:summarize", LIMIT).await?;
            if let Some(spent) = reply.as_ai().and_then(|part| part.usage_metadata.as_ref()) {
                usage.add(spent);
            }
            summary = Some(read(model, &reply)?);
        }
        let text = summary.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| NOTHING_SAID.to_owned());
        Ok(Summary { text, usage })
    }
}

fn read(model: &Arc<dyn ChatModel>, reply: &Message) -> Result<String, AgentError> {
    let said = reply.text();
    let said = spoken(&said);
    if said.is_empty() {
        let name = &model.info().name;
        return Err(AgentError::middleware(super::NAME, format!("model {name} answered with nothing")));
    }
    Ok(text::ellipsis(said, SUMMARY_CHARS))
}
