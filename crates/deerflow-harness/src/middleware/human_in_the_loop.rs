//! Calls that a person has to decide about before they run: approve, edit, reject, or answer in the tool's place.
//!
//! The question and its answer have the shape of LangChain's human-in-the-loop middleware, so that its clients work:
//! `{action_requests: [{name, args, description}], review_configs: [{action_name, allowed_decisions}]}` and
//! `{decisions: [{type, …}]}`, one decision for each request, in order. Not to be confused with a clarification, which is the
//! model's question and ends the run.

mod answer;
mod config;

pub use config::{Approval, ApprovalDetails, DecisionType, HumanInTheLoopConfig};

use super::artifact_registry::substitute;
use super::decided::Decided;
use super::gate_meta::stamp_refusal;
use super::tool_error_handling::ToolMeta;
use answer::{Outcome, read_answer};
use async_trait::async_trait;
use config::{NEVER, Rule};
use deerflow_agent::{Hook, Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, Interrupt, Message, StateSlot, StateUpdate, ThreadState, Tool, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

const NAME: &str = "DeerFlowHumanInTheLoopMiddleware";
const SLOT: StateSlot<Slot> = StateSlot::new(NAME);

/// Private state: what was asked about the last assistant message, and what may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Slot {
    run_id: String,
    message_id: String,
    /// Calls that the open question is about, in its order.
    waiting: Vec<String>,
    /// Calls that a person let through.
    approved: Vec<String>,
}

impl Slot {
    fn lets_through(&self, message: &Message, call: &ToolCall) -> bool {
        self.message_id == message.id() && self.approved.iter().any(|id| id == call.id())
    }
}

/// Asks after all other hooks have had their say about a turn, so that nobody is asked about a call that will not run. Its
/// wrapper lets no call through that was not asked about, should a hook have jumped past the question.
pub struct HumanInTheLoopMiddleware {
    rules: HashMap<String, Rule>,
    description_prefix: String,
    schemas: HashMap<String, Value>,
}

impl HumanInTheLoopMiddleware {
    /// Rules come from the configuration.
    #[must_use]
    pub fn new(config: &HumanInTheLoopConfig) -> Self {
        Self { rules: config.rules(), description_prefix: config.description_prefix.clone(), schemas: HashMap::new() }
    }

    /// Sends the schemas of these tools' arguments along (`args_schema`), where a call may be edited.
    #[must_use]
    pub fn with_tools<'a>(mut self, tools: impl IntoIterator<Item = &'a Arc<dyn Tool>>) -> Self {
        let specs = tools.into_iter().map(|tool| tool.spec());
        let wanted = specs.filter(|spec| self.rules.contains_key(&spec.name));
        self.schemas = wanted.map(|spec| (spec.name.clone(), spec.parameters.clone())).collect();
        self
    }

    /// The question about these calls. A person is told what a handle in the arguments stands for.
    fn question(&self, state: &ThreadState, calls: &[(&ToolCall, &Rule)]) -> Value {
        let entries = || state.tool_artifacts.iter().flatten();
        let real = |handle: &str| entries().find(|entry| entry.handle == handle).map(|entry| entry.real_ref.as_str());
        let request = |(call, rule): &(&ToolCall, &Rule)| {
            let description = rule.description.clone().unwrap_or_else(|| {
                let mut args = Value::Object(call.args.clone());
                substitute(&mut args, &real);
                format!("{}\n\nTool: {}\nArgs: {args}", self.description_prefix, call.name)
            });
            json!({"name": call.name, "args": call.args, "description": description})
        };
        let review = |(call, rule): &(&ToolCall, &Rule)| {
            let mut review = json!({"action_name": call.name, "allowed_decisions": rule.allowed});
            if rule.allowed.contains(&DecisionType::Edit)
                && let Some(schema) = self.schemas.get(&call.name)
            {
                review["args_schema"] = schema.clone();
            }
            review
        };
        json!({
            "action_requests": calls.iter().map(request).collect::<Vec<_>>(),
            "review_configs": calls.iter().map(review).collect::<Vec<_>>(),
        })
    }
}

/// Calls of the message that have no result yet.
fn open_calls<'a>(state: &ThreadState, message: &'a Message) -> Vec<&'a ToolCall> {
    let results = state.answered_since_last_ai();
    let answered = |call: &&ToolCall| results.iter().any(|m| m.as_tool().is_some_and(|p| p.tool_call_id == call.id()));
    message.tool_calls().iter().filter(|call| !answered(call)).collect()
}

fn error_result(call: &ToolCall, kind: &str, text: &str) -> Message {
    let mut message = Message::tool_error(text, call.id(), call.name.clone());
    stamp_refusal(&mut message, Some(kind));
    message
}

fn unattended(call: &ToolCall) -> Message {
    let text = format!(
        "Error: {} was not run: it needs a person's approval, and nobody can give it in this run. Go on without it, and say in \
         your answer what is left to be approved.",
        call.name
    );
    error_result(call, "approval_unavailable", &text)
}

fn postponed(call: &ToolCall) -> Message {
    let text = format!(
        "Error: {} was not run, because the user was asked something in the same turn. Call it again after the answer if it is \
         still needed.",
        call.name
    );
    error_result(call, "postponed", &text)
}

fn rejected(call: &ToolCall, reason: Option<&str>) -> Message {
    let said = reason.map_or_else(String::new, |reason| format!(" They said: {reason}"));
    let text = format!(
        "Error: {} was not run: the user rejected this call.{said}\nDo not make it again in the same way unless they ask for it.",
        call.name
    );
    error_result(call, "rejected_by_user", &text)
}

fn responded(call: &ToolCall, text: &str) -> Message {
    let meta = ToolMeta {
        status: "success".into(),
        error_type: None,
        recoverable_by_model: true,
        recommended_next_action: "continue".into(),
        source: "tool_return".into(),
    };
    Message::tool(text, call.id(), call.name.clone()).with_kwarg(kwargs::TOOL_META, json!(meta))
}

#[async_trait]
impl Middleware for HumanInTheLoopMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(message) = state.last_ai() else { return Ok(Hook::none()) };
        let slot = SLOT.get(state).unwrap_or_default();
        let calls: Vec<(&ToolCall, &Rule)> = open_calls(state, message)
            .into_iter()
            .filter(|call| !slot.lets_through(message, call))
            .filter_map(|call| Some((call, self.rules.get(&call.name)?)))
            .collect();
        if calls.is_empty() {
            return Ok(Hook::none());
        }
        if ctx.interactive && message.tool_calls().iter().any(|call| call.name == NEVER) {
            // The turn ends with the model's own question; nothing else of it runs, approved or not.
            return Ok(Hook::update(StateUpdate::messages(calls.iter().map(|(call, _)| postponed(call)))));
        }
        if !ctx.interactive {
            return Ok(Hook::update(StateUpdate::messages(calls.iter().map(|(call, _)| unattended(call)))));
        }
        let slot = Slot {
            run_id: ctx.run_id.to_string(),
            message_id: message.id().to_owned(),
            waiting: calls.iter().map(|(call, _)| call.id().to_owned()).collect(),
            approved: Vec::new(),
        };
        Ok(Hook::interrupt(SLOT.put(&slot), self.question(state, &calls)))
    }

    async fn on_answer(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        question: &Interrupt,
        answer: &Value,
    ) -> Result<Hook, AgentError> {
        let gone = || AgentError::middleware(NAME, "the calls that the question was about are not there any more");
        let asked = SLOT.get(state).ok_or_else(gone)?;
        let message = state.last_ai().filter(|m| m.id() == asked.message_id).ok_or_else(gone)?;
        let open = open_calls(state, message);
        let calls: Option<Vec<&ToolCall>> =
            asked.waiting.iter().map(|id| open.iter().copied().find(|call| call.id() == id)).collect();
        let calls = calls.ok_or_else(gone)?;
        let outcomes =
            read_answer(&calls, &question.value, answer, &self.rules).map_err(|e| AgentError::middleware(NAME, e))?;

        let decisions: Vec<Value> = calls
            .iter()
            .zip(&outcomes)
            .map(|(call, outcome)| {
                json!({"tool_name": call.name, "tool_call_id": call.id(), "decision": outcome.kind().as_str()})
            })
            .collect();
        let changes = json!({"question_id": question.id, "decisions": decisions});
        Decided { tag: "human_in_the_loop", name: NAME, hook: "on_answer", action: "decide", changes }.record(ctx);
        let mut slot = Slot { run_id: ctx.run_id.to_string(), waiting: Vec::new(), ..asked };
        let mut edited: Option<Message> = None;
        let mut results = Vec::new();
        for (call, outcome) in calls.iter().zip(&outcomes) {
            match outcome {
                Outcome::Approve => slot.approved.push(call.id().to_owned()),
                Outcome::Edit { name, args } => {
                    answer::rewrite(edited.get_or_insert_with(|| (**message).clone()), call.id(), name, args);
                    slot.approved.push(call.id().to_owned());
                }
                Outcome::Reject(reason) => results.push(rejected(call, reason.as_deref())),
                Outcome::Respond(text) => results.push(responded(call, text)),
            }
        }
        let mut update = StateUpdate::messages(edited.into_iter().chain(results));
        SLOT.put_into(&mut update, &slot);
        Ok(Hook::update(update))
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        if self.rules.contains_key(&request.call.name) {
            let state = &request.context.state;
            let slot = SLOT.get(state).unwrap_or_default();
            if !state.last_ai().is_some_and(|message| slot.lets_through(message, &request.call)) {
                tracing::warn!(tool = %request.call.name, run_id = %ctx.run_id, "call that nobody approved refused");
                return Ok(ToolOutcome::message(unattended(&request.call)));
            }
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests;
