//! What comes from outside cannot speak for the harness or for the user.
//!
//! This is the one owner of that for tool results, at two strengths. Remote content (a page, a search result, the reply of an
//! MCP server) loses the framework's tags and the fence of user input, before it is stored. The result of a local tool keeps
//! its tags, since an edit has to match what was read; in requests it loses the fence, so that no file can pose as the user.

use super::remote_content::{RemoteTools, rewrite_outcome, rewrite_texts};
use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, ChatRequest, Content, Message, ThreadState};
use deerflow_tools::neutralise::{neutralise, neutralise_markers};
use std::borrow::Cow;
use std::sync::Arc;

const NAME: &str = "ToolResultSanitizationMiddleware";

/// Neutralises tool results.
#[derive(Debug, Default)]
pub struct ToolResultSanitizationMiddleware {
    remote: RemoteTools,
}

impl ToolResultSanitizationMiddleware {
    /// Results of the tools in `remote` are treated as remote content.
    #[must_use]
    pub fn new(remote: RemoteTools) -> Self {
        Self { remote }
    }
}

fn changed(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

fn whole(content: &Content) -> Option<Content> {
    rewrite_texts(content, |text| changed(neutralise(text)))
}

fn markers(content: &Content) -> Option<Content> {
    rewrite_texts(content, |text| changed(neutralise_markers(text)))
}

#[async_trait]
impl Middleware for ToolResultSanitizationMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let remote = self.remote.contains(&request.call.name);
        let mut outcome = next.run(request).await?;
        if remote {
            rewrite_outcome(&mut outcome, "sanitized", NAME, whole);
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
        for message in request.messages.iter_mut().filter(|m| m.as_tool().is_some()) {
            // A remote result may have been stored before this tool counted as remote; doing it twice changes nothing.
            let remote = message.name.as_deref().is_some_and(|name| self.remote.contains(name));
            let content = if remote { whole(&message.content) } else { markers(&message.content) };
            if let Some(content) = content {
                Arc::make_mut(message).content = content;
            }
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests;
