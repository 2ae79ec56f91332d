//! Keeps one oversized tool result from filling the model's context.
//!
//! A result over its threshold is saved under the thread's outputs and replaced by a preview: what kind of text it is, its
//! structure, its first and last lines, and where the rest is. What cannot be saved is cut in the middle; the end, where an
//! error usually stands, stays. In requests, and there only, oversized results of old turns are cut and the contents of
//! superseded writes are left out.

mod config;
mod cut;
mod preview;
mod superseded;
mod synopsis;

pub use config::ToolOutputConfig;

use super::tool_transforms::record_transform;
use async_trait::async_trait;
use cut::cut_middle;
use deerflow_agent::{Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, ChatRequest, Content, Message, ThreadState, text};
use deerflow_sandbox::{Expect, SandboxError, SandboxProvider, VirtualPath};
use deerflow_tools::FULL_OUTPUT;
use serde_json::Value;
use std::sync::Arc;

const NAME: &str = "ToolOutputBudgetMiddleware";
/// Tools whose output is a log.
const LOG_TOOLS: [&str; 3] = ["bash", "bash_tool", "web_fetch"];
/// Longest tool name in a file name or a notice, in characters.
const TOOL_NAME_CHARS: usize = 64;

/// Outermost around the tools, so that it sees what every other middleware made of a result.
pub struct ToolOutputBudgetMiddleware {
    config: ToolOutputConfig,
    sandbox: Option<Arc<dyn SandboxProvider>>,
}

impl ToolOutputBudgetMiddleware {
    /// Limits come from the configuration. Without a sandbox nothing is saved and oversized results are cut.
    #[must_use]
    pub fn new(config: ToolOutputConfig, sandbox: Option<Arc<dyn SandboxProvider>>) -> Self {
        Self { config, sandbox }
    }

    /// What the model sees in place of a fresh result, and how it was made; `None` when it stays as it is.
    async fn budgeted(&self, ctx: &RunContext, message: &Message) -> Option<(Content, &'static str)> {
        let (tool, text) = self.subject(message)?;
        let save_over = self.config.save_over(tool);
        if save_over.is_some_and(|limit| is_longer(&text, limit))
            && let Some(preview) = self.save(ctx, message, tool, &text).await
        {
            return Some((preview.into(), "externalized"));
        }
        self.cut(tool, &text).map(|content| (content, "truncated"))
    }

    /// Saves a result and describes it. `None`: it is not saved, or a description would be no shorter.
    async fn save(&self, ctx: &RunContext, message: &Message, tool: &str, text: &str) -> Option<String> {
        let provider = self.sandbox.as_ref()?;
        let tool = safe_name(tool);
        // A tool that had to cut its output has saved the whole of it already.
        let saved =
            message.additional_kwargs.get(FULL_OUTPUT).and_then(|full| full.get("path")).and_then(Value::as_str);
        let call_id = message.as_tool().map_or("", |part| &part.tool_call_id);
        let path = match saved {
            Some(saved) => VirtualPath::parse(saved),
            None => {
                let name = file_name(&tool, ctx.run_id.as_str(), call_id, text);
                VirtualPath::outputs().join(&format!("{}/{name}", self.config.storage_subdir))
            }
        };
        let path =
            path.inspect_err(|error| tracing::warn!(%error, tool, "tool output has no place to be saved")).ok()?;

        let (preview, text) = {
            let (tool, path, text) = (tool.clone(), path.to_string(), text.to_owned());
            let (head, tail) = (self.config.preview_head_chars, self.config.preview_tail_chars);
            // Reading megabytes of JSON takes a while. Should a parser panic, the result is cut instead.
            let work = move || (preview::preview(&text, &tool, &path, head, tail), text);
            tokio::task::spawn_blocking(work)
                .await
                .inspect_err(|error| tracing::warn!(%error, "no preview could be made of a tool output"))
                .ok()?
        };
        let preview = preview?;
        if saved.is_some() {
            return Some(preview);
        }
        match self.write(provider, ctx, &path, &text).await {
            Ok(()) => {
                tracing::debug!(tool, %path, bytes = text.len(), "tool output saved");
                Some(preview)
            }
            Err(error) => {
                tracing::warn!(%error, tool, "tool output cannot be saved");
                None
            }
        }
    }

    async fn write(
        &self,
        provider: &Arc<dyn SandboxProvider>,
        ctx: &RunContext,
        path: &VirtualPath,
        text: &str,
    ) -> Result<(), SandboxError> {
        let sandbox = provider.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await?;
        sandbox.write_text(path, text, Expect::Any).await.map(drop)
    }

    fn cut(&self, tool: &str, text: &str) -> Option<Content> {
        let config = &self.config;
        let max = config.fallback_max_chars;
        if max == 0 || !is_longer(text, max) {
            return None;
        }
        Some(cut_middle(text, &safe_name(tool), max, config.fallback_head_chars, config.fallback_tail_chars).into())
    }

    /// A result of an old turn as the model shall see it, or `None` when it stays as it is.
    fn cut_historic(&self, message: &Message) -> Option<Content> {
        let (tool, text) = self.subject(message)?;
        self.cut(tool, &text)
    }

    /// Tool and text of a result that has a budget: of no exempt tool, and nothing but text.
    fn subject<'a>(&self, message: &'a Message) -> Option<(&'a str, std::borrow::Cow<'a, str>)> {
        message.as_tool()?;
        let tool = message.name.as_deref().unwrap_or("unknown");
        let exempt = self.config.exempt_tools.iter().any(|name| name == tool);
        (!exempt && !message.content.has_non_text()).then(|| (tool, message.text()))
    }
}

/// More than `limit` characters. Most results are short and need not be counted.
fn is_longer(text: &str, limit: usize) -> bool {
    text.len() > limit && text.chars().nth(limit).is_some()
}

/// A tool name that is good as a part of a file name: what looks like a path keeps its last part.
fn safe_name(tool: &str) -> String {
    let last = tool.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe: String = text::head(last, TOOL_NAME_CHARS)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    if safe.chars().all(|c| c == '_') { "unknown".to_owned() } else { safe }
}

/// The same result of the same call always has the same name: a call that is run again after a crash leaves one file.
fn file_name(safe_tool: &str, run_id: &str, call_id: &str, text: &str) -> String {
    let mut hash = blake3::Hasher::new();
    for part in [run_id, call_id, text] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let extension = if LOG_TOOLS.contains(&safe_tool) { "log" } else { "txt" };
    let digest = hash.finalize().to_hex();
    format!("{safe_tool}-{}.{extension}", text::head(&digest, 12))
}

#[async_trait]
impl Middleware for ToolOutputBudgetMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let mut outcome = next.run(request).await?;
        if !self.config.enabled {
            return Ok(outcome);
        }
        if let Some((content, kind)) = self.budgeted(ctx, &outcome.message).await {
            outcome.message.content = content;
            record_transform(&mut outcome.message, kind, NAME);
        }
        for message in &mut outcome.update.messages {
            if let Some((content, kind)) = self.budgeted(ctx, message).await {
                let message = Arc::make_mut(message);
                message.content = content;
                record_transform(message, kind, NAME);
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
        if self.config.enabled {
            for message in &mut request.messages {
                if let Some(content) = self.cut_historic(message) {
                    Arc::make_mut(message).content = content;
                }
            }
            if self.config.elide_superseded_writes {
                let config = &self.config;
                superseded::elide(&mut request.messages, config.superseded_write_min_chars, config.keep_recent_writes);
            }
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests;
