//! No file is overwritten that the model does not know as it is now.
//!
//! What the model knows is a mark on a result in the conversation: the hash of the whole file, as it was when the model read
//! it or when its own write had made it. A change of an existing file runs only when the newest mark of its path equals the
//! file. The mark goes with its message, so what was compacted away has to be read again.
//! `docs/decisions/004-own-writes-are-knowledge.md` says why a write leaves a mark.

mod elide;
mod gate;

use super::gate_meta::stamp_refusal;
use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_config::Section;
use deerflow_core::{AgentError, ChatRequest, Message, ThreadState, ToolStatus};
use deerflow_sandbox::{Sandbox, SandboxError, SandboxProvider, VirtualPath};
use deerflow_tools::KeyedLocks;
use gate::{Base, Change, Mark};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// `additional_kwargs` key of a mark: `{path, hash, source?}`.
const READ_MARK: &str = "deerflow_read_mark";
/// `additional_kwargs` key of a refused write: `{path, tool}`.
const WRITE_BLOCK: &str = "deerflow_write_block";
const READ: &str = "read_file";
/// Waiting for another call to be done with the same file.
const LOCK_WAIT: Duration = Duration::from_secs(120);
/// Hashing one file. What takes longer is not judged.
const HASH_LIMIT: Duration = Duration::from_secs(60);

/// Lets only known files be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadBeforeWriteConfig {
    /// Whether an existing file must be known before it is changed.
    pub enabled: bool,
    /// Leave the content of a refused write out of requests: it was not written, and has to be sent again anyway. The stored
    /// conversation keeps it.
    pub elide_blocked_payloads: bool,
    /// Only contents of at least this many characters are left out.
    pub elide_min_chars: usize,
}

impl Default for ReadBeforeWriteConfig {
    fn default() -> Self {
        Self { enabled: true, elide_blocked_payloads: true, elide_min_chars: 2000 }
    }
}

impl Section for ReadBeforeWriteConfig {
    const KEY: &'static str = "read_before_write";
}

/// Outside the progress guard and the error handling: a refusal is no failure of the tool.
pub struct ReadBeforeWriteMiddleware {
    config: ReadBeforeWriteConfig,
    sandbox: Arc<dyn SandboxProvider>,
    locks: Arc<KeyedLocks>,
}

/// The file that a call names.
struct Target {
    sandbox: Arc<dyn Sandbox>,
    path: VirtualPath,
}

impl ReadBeforeWriteMiddleware {
    /// Files are those of `sandbox`. `locks` are shared by all agents of the process, since a sub-agent works on the files of
    /// its parent.
    #[must_use]
    pub fn new(config: ReadBeforeWriteConfig, sandbox: Arc<dyn SandboxProvider>, locks: Arc<KeyedLocks>) -> Self {
        Self { config, sandbox, locks }
    }

    /// `None` when the call names no file of the sandbox: the tool will say so.
    async fn target(&self, ctx: &RunContext, request: &ToolRequest) -> Option<Target> {
        let path = match request.call.args.get("path")? {
            Value::String(path) => path.clone(),
            other @ (Value::Number(_) | Value::Bool(_)) => other.to_string(),
            _ => return None,
        };
        let sandbox = self.sandbox.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await.ok()?;
        let path = sandbox.parse_path(&sandbox.mask(path.trim())).ok()?;
        Some(Target { sandbox, path })
    }

    async fn read(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
        target: &Target,
    ) -> Result<ToolOutcome, AgentError> {
        // Taken before: should the file change while it is read, the mark is of a file that is no more.
        let before = target.hash(ctx).await;
        let mut outcome = next.run(request).await?;
        if let Ok(before) = before
            && succeeded(&outcome.message)
            && !says_nothing(&outcome.message.text())
        {
            Mark::read(&target.path, before).put(&mut outcome.message);
        }
        Ok(outcome)
    }

    async fn write(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
        target: &Target,
        change: Change,
    ) -> Result<ToolOutcome, AgentError> {
        let base = if next.is_resumed() {
            // It was let through before the process ended; the file may be changed by this very call.
            Base::Unjudged
        } else {
            gate::judge(ctx, &request, target, &change).await
        };
        ctx.check_cancelled()?;
        if let Base::Unknown(reason) = &base {
            tracing::debug!(tool = %request.call.name, path = %target.path, "write to an unknown file refused");
            return Ok(refusal(&request, target, reason));
        }
        let mut outcome = next.run(request).await?;
        let known = matches!(change, Change::Whole) || matches!(base, Base::Known | Base::Missing);
        if known
            && succeeded(&outcome.message)
            && let Ok(hash) = target.hash(ctx).await
        {
            Mark::written(&target.path, hash).put(&mut outcome.message);
        }
        Ok(outcome)
    }
}

impl Target {
    /// SHA-256 of the file as it is now.
    async fn hash(&self, ctx: &RunContext) -> Result<String, SandboxError> {
        let unread = |message: &str| SandboxError::Io {
            action: "reading",
            path: Some(self.path.to_string()),
            message: message.to_owned(),
        };
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(unread("cancelled")),
            hash = tokio::time::timeout(HASH_LIMIT, self.sandbox.sha256(&self.path)) => {
                hash.unwrap_or_else(|_| Err(unread("it takes too long")))
            }
        }
    }
}

/// By its status, not by its text: a file may well begin with `Error:`.
fn succeeded(message: &Message) -> bool {
    message.as_tool().is_some_and(|part| part.status == ToolStatus::Success)
}

/// A read that was no error and showed nothing of the file: a range that cannot be.
fn says_nothing(text: &str) -> bool {
    (text.starts_with("(start_line") || text.starts_with("(end_line")) && text.ends_with(')') && !text.contains('\n')
}

fn refusal(request: &ToolRequest, target: &Target, reason: &str) -> ToolOutcome {
    let tool = &request.call.name;
    let mut outcome = ToolOutcome::error(&request.call, format!("Error: {tool} was not run: {reason}"));
    stamp_refusal(&mut outcome.message, None);
    let block = json!({"path": target.path, "tool": tool});
    outcome.message.additional_kwargs.insert(WRITE_BLOCK.to_owned(), block);
    outcome
}

#[async_trait]
impl Middleware for ReadBeforeWriteMiddleware {
    fn name(&self) -> &'static str {
        "ReadBeforeWriteMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let change = Change::of(&request.call);
        if change.is_none() && request.call.name != READ {
            return next.run(request).await;
        }
        let Some(target) = self.target(ctx, &request).await else { return next.run(request).await };
        let key = format!("{}\n{}", target.sandbox.id(), target.path);
        let guard = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(AgentError::Cancelled),
            guard = self.locks.lock(&key, LOCK_WAIT) => guard,
        };
        let Some(_guard) = guard else {
            let seconds = LOCK_WAIT.as_secs();
            let text = format!(
                "Error: another call was at work on {} for more than {seconds} s; {} was not run. Try again.",
                target.path, request.call.name
            );
            let mut outcome = ToolOutcome::error(&request.call, text);
            stamp_refusal(&mut outcome.message, Some("transient"));
            return Ok(outcome);
        };
        match change {
            Some(change) => self.write(ctx, request, next, &target, change).await,
            None => self.read(ctx, request, next, &target).await,
        }
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if self.config.elide_blocked_payloads {
            elide::elide(&mut request.messages, self.config.elide_min_chars);
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests;
