//! Looks at shell commands before they run and keeps a record of each.
//!
//! This is defence in depth and no boundary: a shell can say anything in a thousand ways, and whoever means to get past a list of
//! patterns will. What holds a command is the sandbox. This catches accidents and the usual attacks early, tells the model
//! why, and leaves a line in the log (target `deerflow::audit`) for every command, run or not.

mod grade;
mod rules;
mod split;

use super::ToolMeta;
use super::tool_transforms::record_transform;
use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, Content, ContentBlock, text};
use grade::{Grade, Level, grade};
use serde_json::{Value, json};

const NAME: &str = "SandboxAuditMiddleware";
/// The tool that is looked at.
const TOOL: &str = "bash";
/// Longest command, in characters.
const MAX_CHARS: usize = 10_000;
/// What is kept of a command that was not even graded, and shown of one in a warning, in characters.
const EXCERPT_CHARS: usize = 200;

/// Grades the commands of `bash`: some do not run, some run with a warning.
#[derive(Debug, Clone, Copy)]
pub struct SandboxAuditMiddleware {
    isolated: bool,
}

impl SandboxAuditMiddleware {
    /// `isolated`: commands run in a sandbox of their own and not as a process of this machine. There `dd` between files,
    /// `LD_LIBRARY_PATH` and decoding into a pipe are ordinary and only warned about.
    #[must_use]
    pub fn new(isolated: bool) -> Self {
        Self { isolated }
    }

    fn audit(&self, ctx: &RunContext, request: &ToolRequest, command: &str, grade: Grade) {
        let verdict = match grade.level {
            Level::Pass => "pass",
            Level::Warn => "warn",
            Level::Block => "block",
        };
        tracing::info!(
            target: "deerflow::audit",
            thread_id = %ctx.thread_id, run_id = %ctx.run_id, user_id = %ctx.user_id, call_id = request.call.id(),
            isolated = self.isolated, verdict, reason = grade.reason, command, "sandbox audit"
        );
    }
}

/// Why a command is not even looked at.
fn rejection(command: &str) -> Option<&'static str> {
    if command.trim().is_empty() {
        Some("empty command")
    } else if command.chars().nth(MAX_CHARS).is_some() {
        Some("command too long")
    } else if command.contains('\0') {
        Some("null byte detected")
    } else {
        None
    }
}

fn blocked(request: &ToolRequest, reason: &str) -> ToolOutcome {
    let advice = match reason {
        "command too long" => "Put the script into a file with write_file and run that",
        _ => "It was not run. Reach the goal in another way, or tell the user what is not possible here",
    };
    let mut outcome = ToolOutcome::error(&request.call, format!("Error: Command blocked: {reason}. {advice}."));
    outcome.message.additional_kwargs.insert(kwargs::TOOL_META.to_owned(), json!(ToolMeta::permission_denied()));
    outcome
}

/// Adds a note at the end; everything else of the result stays.
fn annotate(outcome: &mut ToolOutcome, note: &str) {
    match &mut outcome.message.content {
        Content::Text(text) => {
            text.push_str("\n\n");
            text.push_str(note);
        }
        Content::Blocks(blocks) => blocks.push(ContentBlock::Text(note.to_owned())),
    }
    record_transform(&mut outcome.message, "audit_warning", NAME);
}

#[async_trait]
impl Middleware for SandboxAuditMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        if request.call.name != TOOL {
            return next.run(request).await;
        }
        let command = request.call.args.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(reason) = rejection(&command) {
            self.audit(ctx, &request, text::head(&command, EXCERPT_CHARS), Grade::block(reason));
            return Ok(blocked(&request, reason));
        }
        let grade = grade(&command, self.isolated);
        self.audit(ctx, &request, &command, grade);
        match grade.level {
            Level::Block => Ok(blocked(&request, &format!("it {}", grade.reason))),
            Level::Pass => next.run(request).await,
            Level::Warn => {
                let mut outcome = next.run(request).await?;
                let shown = text::ellipsis(command.lines().next().unwrap_or_default(), EXCERPT_CHARS);
                annotate(&mut outcome, &format!("[Warning: `{shown}` {}; it was run all the same.]", grade.reason));
                Ok(outcome)
            }
        }
    }
}

#[cfg(test)]
mod tests;
