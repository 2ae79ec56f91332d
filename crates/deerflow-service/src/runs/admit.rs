//! From a body to an admitted run.

use super::body::{CommandBody, IfNotExistsBody, OnDisconnectBody, RunBody, StrategyBody};
use super::context;
use crate::refusal::{Refusal, RefusalKind};
use crate::service::Service;
use crate::shapes::state_update;
use deerflow_core::ports::RunRow;
use deerflow_core::{CheckpointId, JsonMap, StateUpdate, StoreError, ThreadId};
use deerflow_runtime::{Caller, Command, CreateError, CreateRun, MultitaskStrategy, OnDisconnect, RunFacts, RunInput};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Longest delay of a run: a year.
const MAX_DELAY: f64 = 365.0 * 24.0 * 3600.0;
/// Keys of a configuration that are secrets, or say who asks.
const PRIVATE: [&str; 4] = ["secrets", "auth_token", "langgraph_auth_user", "langgraph_auth_user_id"];

impl Service {
    /// Admits the run that a body describes. `create_thread` makes the thread when there is none; otherwise the body says.
    ///
    /// # Errors
    /// Not found: the thread, or the checkpoint; a conflict when the thread has a live run, or when the key was used for another
    /// request; when the body does not fit.
    pub async fn admit(
        &self,
        caller: &Caller,
        thread_id: &ThreadId,
        body: RunBody,
        idempotency_key: Option<String>,
        create_thread: bool,
    ) -> Result<RunRow, Refusal> {
        refuse_token(body.metadata.as_ref(), json!(["body", "metadata", "auth_token"]))?;
        let config_metadata = body.config.as_ref().and_then(|config| config.metadata.as_ref());
        refuse_token(config_metadata, json!(["body", "config", "metadata", "auth_token"]))?;
        let options = context::options(&body)?;
        if let Some(name) = &options.model
            && !self.harness.models().entries().iter().any(|entry| entry.name == *name)
        {
            return Err(Refusal::bad_request(format!("Model '{name}' is not in the configured model allowlist")));
        }
        let checkpoint = checkpoint(&body, thread_id)?;
        let facts = facts(&body);
        let strategy = strategy(body.multitask_strategy);
        let after = delay(body.after_seconds)?;
        let create_thread = create_thread || body.if_not_exists == Some(IfNotExistsBody::Create);
        let (input, command) = beginning(body.input, body.command)?;
        let request = CreateRun {
            command,
            checkpoint,
            options,
            facts,
            strategy,
            after,
            idempotency_key,
            interrupt_before: body.interrupt_before.map(|nodes| nodes.0).unwrap_or_default(),
            interrupt_after: body.interrupt_after.map(|nodes| nodes.0).unwrap_or_default(),
            create_thread,
            ..CreateRun::new(thread_id.clone(), input)
        };
        self.runs.create(caller, request).await.map_err(|error| refusal(error, thread_id))
    }
}

fn refuse_token(metadata: Option<&JsonMap>, place: Value) -> Result<(), Refusal> {
    match metadata.is_some_and(|metadata| metadata.contains_key("auth_token")) {
        true => Err(Refusal::invalid("value_error", place, "Secrets do not belong into metadata", Value::Null)),
        false => Ok(()),
    }
}

fn beginning(input: Option<Value>, command: Option<CommandBody>) -> Result<(RunInput, Command), Refusal> {
    let CommandBody { resume, update, goto } = command.unwrap_or_default();
    let command = Command { goto: goto.map(node).transpose()?, update: update.map(writes).transpose()? };
    if let Some(answer) = resume {
        return Ok((RunInput::Resume(answer), command));
    }
    let input = match input {
        None | Some(Value::Null) => RunInput::Nothing,
        // An empty input is how some clients say "go on".
        Some(Value::Object(fields)) if fields.is_empty() => RunInput::Nothing,
        Some(Value::Object(fields)) => RunInput::State(state_update(fields, &["input"])?),
        // A list of messages, or one.
        Some(messages @ (Value::Array(_) | Value::String(_))) => {
            RunInput::State(state_update(Map::from_iter([("messages".to_owned(), messages)]), &["input"])?)
        }
        Some(other) => {
            let message = "Input should be a valid dictionary";
            return Err(Refusal::invalid("dict_type", json!(["body", "input"]), message, other));
        }
    };
    Ok((input, command))
}

/// The node of a `goto`: one name, alone or in a list.
fn node(goto: Value) -> Result<String, Refusal> {
    let refused = |goto: Value| {
        let message = "Input should be the name of one node: `model`, `tools` or `__end__`";
        Refusal::invalid("value_error", json!(["body", "command", "goto"]), message, goto)
    };
    match goto {
        Value::String(name) => Ok(name),
        Value::Array(mut names) if names.len() == 1 => {
            names.remove(0).as_str().map(str::to_owned).ok_or_else(|| refused(Value::Array(names)))
        }
        other => Err(refused(other)),
    }
}

/// The writes of a `command`: an object, or pairs of channel and value.
fn writes(update: Value) -> Result<StateUpdate, Refusal> {
    let fields = match update {
        Value::Array(pairs) => {
            let mut fields = Map::new();
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([Value::String(channel), value]) => _ = fields.insert(channel.clone(), value.clone()),
                    _ => {
                        let message = "Input should be pairs of channel and value";
                        return Err(Refusal::invalid(
                            "value_error",
                            json!(["body", "command", "update"]),
                            message,
                            pair,
                        ));
                    }
                }
            }
            fields
        }
        Value::Object(fields) => fields,
        other => {
            let message = "Input should be a valid dictionary";
            return Err(Refusal::invalid("dict_type", json!(["body", "command", "update"]), message, other));
        }
    };
    state_update(fields, &["command", "update"])
}

/// The chosen checkpoint; a selector without an id chooses nothing.
fn checkpoint(body: &RunBody, thread_id: &ThreadId) -> Result<Option<CheckpointId>, Refusal> {
    let selector = body.checkpoint.as_ref();
    if let Some(other) = selector.and_then(|selector| selector.thread_id.as_ref())
        && other != thread_id.as_str()
    {
        return Err(Refusal::bad_request("The checkpoint belongs to another thread"));
    }
    if selector.and_then(|selector| selector.checkpoint_ns.as_deref()).is_some_and(|namespace| !namespace.is_empty()) {
        return Err(Refusal::bad_request("A run can only begin at a checkpoint of the thread itself"));
    }
    let id = selector.and_then(|selector| selector.checkpoint_id.as_ref()).or(body.checkpoint_id.as_ref());
    let missing = |id: &String| Refusal::not_found(format!("Checkpoint {id} not found"));
    id.map(|id| CheckpointId::parse(id.as_str()).map_err(|_| missing(id))).transpose()
}

fn delay(seconds: Option<f64>) -> Result<Duration, Refusal> {
    match seconds {
        None => Ok(Duration::ZERO),
        Some(seconds) if (0.0..=MAX_DELAY).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Some(seconds) => {
            let message = format!("Input should be between 0 and {MAX_DELAY}");
            Err(Refusal::invalid("value_error", json!(["body", "after_seconds"]), message, json!(seconds)))
        }
    }
}

fn strategy(strategy: Option<StrategyBody>) -> MultitaskStrategy {
    match strategy {
        None | Some(StrategyBody::Reject) => MultitaskStrategy::Reject,
        Some(StrategyBody::Interrupt) => MultitaskStrategy::Interrupt,
        Some(StrategyBody::Rollback) => MultitaskStrategy::Rollback,
        Some(StrategyBody::Enqueue) => MultitaskStrategy::Enqueue,
    }
}

/// What is kept of the request for its clients, secrets left out.
fn facts(body: &RunBody) -> RunFacts {
    let mut metadata = body.config.as_ref().and_then(|config| config.metadata.clone()).unwrap_or_default();
    metadata.extend(body.metadata.clone().unwrap_or_default());
    let mut kwargs = JsonMap::new();
    kwargs.insert("input".to_owned(), body.input.clone().unwrap_or(Value::Null));
    let mut config = JsonMap::new();
    if let Some(given) = &body.config {
        config.extend(given.rest.clone());
        let parts = [("configurable", &given.configurable), ("context", &given.context), ("metadata", &given.metadata)];
        for (key, part) in parts {
            if let Some(part) = part {
                config.insert(key.to_owned(), public(part));
            }
        }
        if let Some(limit) = &given.recursion_limit {
            config.insert("recursion_limit".to_owned(), limit.clone());
        }
    }
    if let Some(context) = &body.context {
        config.insert("context".to_owned(), public(context));
    }
    kwargs.insert("config".to_owned(), Value::Object(config));
    RunFacts {
        assistant_id: body.assistant_id.clone(),
        metadata,
        kwargs,
        on_disconnect: match body.on_disconnect {
            Some(OnDisconnectBody::Cancel) => OnDisconnect::Cancel,
            Some(OnDisconnectBody::Continue) | None => OnDisconnect::Continue,
        },
        webhook: body.webhook.clone(),
        stream_mode: body.stream_mode.iter().flat_map(|modes| &modes.0).map(|mode| mode.as_str().to_owned()).collect(),
        ..RunFacts::default()
    }
}

fn public(part: &JsonMap) -> Value {
    let shown = part
        .iter()
        .filter(|(key, _)| !PRIVATE.contains(&key.as_str()) && !key.starts_with("__") && !key.ends_with("_token"));
    Value::Object(shown.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// An error of the runtime in the words that clients know.
fn refusal(error: CreateError, thread_id: &ThreadId) -> Refusal {
    match error {
        CreateError::Store(StoreError::NotFound { what: "thread", .. }) | CreateError::NoThread(_) => {
            Refusal::no_thread(thread_id)
        }
        CreateError::Store(error) => error.into(),
        CreateError::NoCheckpoint(id) => Refusal::not_found(format!("Checkpoint {id} not found")),
        CreateError::Closed => Refusal::new(RefusalKind::Unavailable, error.to_string()),
        CreateError::KeyReused(_) | CreateError::NotWaiting(_) => Refusal::conflict(error.to_string()),
        CreateError::BadOption { field, ref reason } => {
            let path: Vec<&str> = std::iter::once("body").chain(field.split('.')).collect();
            Refusal::invalid("value_error", json!(path), reason.clone(), Value::Null)
        }
        CreateError::NoInput(_) => Refusal::invalid("missing", json!(["body", "input"]), "Field required", Value::Null),
        CreateError::Lead(ref lead) => {
            Refusal::invalid("value_error", json!(["body", "context"]), lead.to_string(), Value::Null)
        }
        CreateError::Runtime(ref runtime) => Refusal::internal(runtime),
    }
}
