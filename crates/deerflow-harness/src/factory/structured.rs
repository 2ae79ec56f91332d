//! An answer in the caller's format: the model gives it by calling a tool whose arguments are that format.

use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, JumpTarget, Middleware, ModelNext, RunContext};
use deerflow_core::{
    AgentError, Channel, ChatRequest, Effects, JsonMap, Message, StateSlot, StateUpdate, ThreadState, Tool, ToolChoice,
    ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Name of the tool that takes the answer, unless the schema has a `title`.
pub const STRUCTURED_TOOL: &str = "structured_response";
/// Times the model is reminded to answer in the format.
const REMINDERS: u32 = 2;
const ASKED: StateSlot<Asked> = StateSlot::new("StructuredResponseMiddleware");

/// A response format that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is not a JSON Schema.
    #[error("the response format is no valid JSON Schema: {0}")]
    Invalid(String),
    /// Tool arguments are objects.
    #[error("the response format must describe an object (`\"type\": \"object\"`); wrap the value in one")]
    NotAnObject,
}

/// Reminders given in a run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Asked {
    run_id: String,
    times: u32,
}

/// Owns `structured_response`. Brings the tool that takes it, and reminds a model that answers without it.
pub struct StructuredResponseMiddleware {
    tool: Arc<StructuredTool>,
}

impl StructuredResponseMiddleware {
    /// Answers must be objects of `schema`.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        let validator = jsonschema::validator_for(&schema).map_err(|e| SchemaError::Invalid(e.to_string()))?;
        let title = schema.get("title").and_then(Value::as_str).unwrap_or(STRUCTURED_TOOL);
        let name: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = format!("Gives the final answer in the required format and ends the run. {about}");
        let spec = ToolSpec { name, description: description.trim_end().to_owned(), parameters: schema };
        Ok(Self { tool: Arc::new(StructuredTool { spec, validator }) })
    }

    fn asked(ctx: &RunContext, state: &ThreadState) -> u32 {
        ASKED.get(state).filter(|asked| asked.run_id == ctx.run_id.as_str()).map_or(0, |asked| asked.times)
    }
}

#[async_trait]
impl Middleware for StructuredResponseMiddleware {
    fn name(&self) -> &'static str {
        "StructuredResponseMiddleware"
    }
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![self.tool.clone()]
    }

    /// The last run's answer is not this run's.
    async fn before_agent(&self, _ctx: &RunContext, state: &ThreadState) -> HookResult {
        if state.structured_response.is_none() {
            return Ok(Hook::none());
        }
        Ok(Hook::update(StateUpdate { remove: [Channel::StructuredResponse].into(), ..StateUpdate::none() }))
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if Self::asked(ctx, state) > 0 && request.tool_choice == ToolChoice::Auto {
            request.tool_choice = ToolChoice::Required;
            let name = &self.tool.spec.name;
            let text = format!("Give the answer by calling `{name}` with arguments in its format.");
            request.messages.push(Arc::new(Message::human(text).with_name("response_format").hidden()));
        }
        next.run(request).await
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let Some(answer) = state.last_ai() else { return Ok(Hook::none()) };
        let open =
            answer.as_ai().is_some_and(|part| !part.tool_calls.is_empty() || !part.invalid_tool_calls.is_empty());
        let times = Self::asked(ctx, state);
        // A limit that ended the run stands: one more turn would not be allowed either.
        if open || state.structured_response.is_some() || times >= REMINDERS || ctx.stop_reason().is_some() {
            return Ok(Hook::none());
        }
        let asked = Asked { run_id: ctx.run_id.to_string(), times: times + 1 };
        Ok(Hook::jump(ASKED.put(&asked), JumpTarget::Model))
    }
}

struct StructuredTool {
    spec: ToolSpec,
    validator: jsonschema::Validator,
}

#[async_trait]
impl Tool for StructuredTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::Pure
    }
    async fn call(&self, _ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let answer = Value::Object(args);
        let faults: Vec<String> =
            self.validator.iter_errors(&answer).take(5).map(|e| format!("{}: {e}", e.instance_path())).collect();
        if !faults.is_empty() {
            return Err(ToolError::respond(format!("the answer does not fit the format: {}", faults.join("; "))));
        }
        let text = answer.to_string();
        let update = StateUpdate { structured_response: Some(answer), ..StateUpdate::none() };
        Ok(ToolOutput { update, end_run: true, ..ToolOutput::text(text) })
    }
}
