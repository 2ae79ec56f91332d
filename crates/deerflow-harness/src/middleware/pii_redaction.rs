//! Personal data does not reach the model: at the boundary to it, placeholders stand in a request for what a user wrote; at the
//! boundary of remote tools, in what is stored of their results.
//!
//! The conversation keeps the user's own words, so that people see what they wrote. In front of them may stand the server's
//! list of uploaded files: its paths stay, or no tool could open them. A failure is logged and the text goes out as it is.

mod config;
mod detect;
mod fold;
mod key;
mod numbers;
mod redactor;
mod validate;

pub use config::PiiRedactionConfig;
pub use key::RedactionKey;
pub use redactor::Redactor;

use super::remote_content::{RemoteTools, rewrite_outcome, rewrite_texts};
use super::uploads::{UPLOADS_CLOSE, UPLOADS_OPEN};
use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, ChatRequest, Content, Message, ThreadState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const NAME: &str = "PiiRedactionMiddleware";

/// Puts placeholders for personal data into requests and into results of remote tools.
#[derive(Debug)]
pub struct PiiRedactionMiddleware {
    redactor: Redactor,
    remote: RemoteTools,
}

impl PiiRedactionMiddleware {
    /// With the installation's `redactor`; results of the tools in `remote` are redacted.
    #[must_use]
    pub fn new(redactor: Redactor, remote: RemoteTools) -> Self {
        Self { redactor, remote }
    }
}

/// What a redaction gave; nothing, with a warning, if a detector broke.
fn or_as_it_is<T>(redact: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(redact)).unwrap_or_else(|_| {
        tracing::warn!("personal data could not be looked for; the text goes to the model as it is");
        None
    })
}

/// A user's message without personal data; `stored` is the same one as it was written.
fn redact_user(redactor: &Redactor, message: &Message, stored: Option<&Message>) -> Option<Content> {
    // Blocks of a message are joined before it comes here, so a value that went over their edge has a line break in it.
    let torn = match stored.map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => redactor.torn(blocks),
        _ => Vec::new(),
    };
    let mended = (!torn.is_empty()).then(|| {
        rewrite_texts(&message.content, |text| {
            let mended =
                torn.iter().fold(text.to_owned(), |text, (value, placeholder)| text.replace(value, placeholder));
            (mended != text).then_some(mended)
        })
    });
    let mended = mended.flatten();
    let content = mended.as_ref().unwrap_or(&message.content);
    let front = match content {
        Content::Text(text) => uploads_end(text),
        Content::Blocks(_) => 0,
    };
    let redacted = match content {
        Content::Text(text) if front > 0 => {
            let (list, own) = text.split_at(front);
            let both = format!("{}{}", redact_list(redactor, list), redactor.redact(own));
            (both != *text).then_some(Content::Text(both))
        }
        Content::Blocks(blocks)
            if blocks.iter().any(|block| block.text().is_some_and(|text| uploads_end(text) > 0)) =>
        {
            rewrite_texts(content, |text| {
                let (list, own) = text.split_at(uploads_end(text));
                let both = format!("{}{}", redact_list(redactor, list), redactor.redact(own));
                (both != text).then_some(both)
            })
        }
        content => redactor.redact_content(content),
    };
    redacted.or(mended)
}

/// Where the server's list of uploaded files ends that a text begins with; 0 without one.
fn uploads_end(text: &str) -> usize {
    if !text.starts_with(UPLOADS_OPEN) {
        return 0;
    }
    text.find(UPLOADS_CLOSE).map_or(0, |at| at + UPLOADS_CLOSE.len())
}

/// The list of files: lines with paths stay, what is shown of the files does not.
fn redact_list(redactor: &Redactor, list: &str) -> String {
    let line = |line: &str| match line.contains("/mnt/user-data/") {
        true => line.to_owned(),
        false => redactor.redact(line).into_owned(),
    };
    list.split_inclusive('\n').map(line).collect()
}

#[async_trait]
impl Middleware for PiiRedactionMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if self.redactor.is_on() {
            let redactor = self.redactor.for_thread(&ctx.thread_id);
            for message in request.messages.iter_mut().filter(|message| message.is_genuine_user()) {
                let stored = state.messages.iter().find(|stored| stored.id.is_some() && stored.id == message.id);
                if let Some(content) = or_as_it_is(|| redact_user(&redactor, message, stored.map(|stored| &**stored))) {
                    Arc::make_mut(message).content = content;
                }
            }
        }
        next.run(request).await
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let wanted = self.redactor.is_on() && self.remote.contains(&request.call.name);
        let mut outcome = next.run(request).await?;
        if wanted {
            let redactor = self.redactor.for_thread(&ctx.thread_id);
            rewrite_outcome(&mut outcome, "pii_redaction", NAME, |content| {
                or_as_it_is(|| redactor.redact_content(content))
            });
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;
