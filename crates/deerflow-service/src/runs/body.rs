//! The body that creates a run: everything the SDKs send.

use deerflow_core::{JsonMap, ThreadId};
use deerflow_runtime::StreamMode;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A run to be created.
///
/// Unknown keys are refused, so that a misspelt option is no silent default.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "assistant_id": "lead_agent",
    "input": {"messages": [{"role": "user", "content": "Find the main reasons why sales fell"}]},
    "stream_mode": ["values", "messages-tuple"],
    "context": {"thinking_enabled": true}
}))]
pub struct RunBody {
    /// `lead_agent`, or the name of a custom agent.
    #[schema(example = "lead_agent")]
    pub assistant_id: Option<String>,
    /// New messages under `messages`, and other channels of the state. Without input the run goes on where the thread stands.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// Answers a question, writes to the state, or says where to go on.
    pub command: Option<CommandBody>,
    /// What clients keep with the run.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<JsonMap>,
    /// LangChain's `RunnableConfig`.
    pub config: Option<ConfigBody>,
    /// Model and ways of working: `model_name`, `thinking_enabled`, `reasoning_effort`, `is_plan_mode` …
    #[schema(value_type = Option<Object>)]
    pub context: Option<JsonMap>,
    /// Where in the history to begin; wins over `checkpoint_id`.
    pub checkpoint: Option<CheckpointBody>,
    /// Where in the history to begin.
    pub checkpoint_id: Option<String>,
    /// Nodes before which the run stops: `model`, `tools`, or `"*"`.
    pub interrupt_before: Option<Nodes>,
    /// Nodes after which the run stops.
    pub interrupt_after: Option<Nodes>,
    /// What is streamed; `values` when absent.
    #[schema(value_type = Option<Vec<String>>)]
    pub stream_mode: Option<Modes>,
    /// Stream sub-agents too.
    pub stream_subgraphs: Option<bool>,
    /// Accepted: every stream here can be resumed.
    pub stream_resumable: Option<bool>,
    /// Whether the run ends when its reader goes away; `continue` when absent.
    pub on_disconnect: Option<OnDisconnectBody>,
    /// What happens when the thread has a live run; `reject` when absent.
    pub multitask_strategy: Option<StrategyBody>,
    /// What happens when there is no such thread; `create` for stateless runs.
    pub if_not_exists: Option<IfNotExistsBody>,
    /// Address that is told of the end.
    pub webhook: Option<String>,
    /// Whether a thread made for a stateless run stays; `keep` when absent.
    pub on_completion: Option<OnCompletionBody>,
    /// Seconds to wait before the run begins.
    #[schema(minimum = 0)]
    pub after_seconds: Option<f64>,
    /// Accepted: feedback is given through its own routes.
    pub feedback_keys: Option<Vec<String>>,
    /// Accepted: every step is durable before it is told.
    #[schema(value_type = Option<String>)]
    pub durability: Option<Value>,
    /// Accepted, as `durability`.
    #[schema(value_type = Option<bool>)]
    pub checkpoint_during: Option<Value>,
    /// Accepted and ignored.
    #[schema(value_type = Option<Object>)]
    pub langsmith_tracer: Option<Value>,
    /// Accepted: an answer that fits no question is always refused.
    pub strict_resume: Option<bool>,
}

/// Steers where a run begins.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandBody {
    /// Answer to the open questions.
    #[schema(value_type = Object)]
    pub resume: Option<Value>,
    /// Writes to the state: an object of channels, or a list of pairs.
    #[schema(value_type = Object)]
    pub update: Option<Value>,
    /// Node to go on with.
    #[schema(value_type = Object)]
    pub goto: Option<Value>,
}

/// LangChain's `RunnableConfig`, as far as it means something here.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct ConfigBody {
    /// Model turns, at most `max_recursion_limit` of the configuration.
    #[schema(value_type = Option<u32>)]
    pub recursion_limit: Option<Value>,
    /// As `context` of the run.
    #[schema(value_type = Option<Object>)]
    pub configurable: Option<JsonMap>,
    /// As `context` of the run.
    #[schema(value_type = Option<Object>)]
    pub context: Option<JsonMap>,
    /// What clients keep with the run.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<JsonMap>,
    /// Anything else.
    #[serde(flatten)]
    #[schema(ignore)]
    pub rest: JsonMap,
}

/// A place in a thread's history.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
pub struct CheckpointBody {
    /// The thread; must be that of the run.
    #[schema(value_type = Option<String>)]
    pub thread_id: Option<String>,
    /// Empty for the thread itself.
    pub checkpoint_ns: Option<String>,
    /// The checkpoint; without it nothing is chosen.
    pub checkpoint_id: Option<String>,
    /// Accepted and ignored.
    #[schema(value_type = Option<Object>)]
    pub checkpoint_map: Option<Value>,
}

/// Some nodes, or all of them.
#[derive(Debug, Clone, PartialEq, ToSchema)]
#[schema(value_type = Vec<String>)]
pub struct Nodes(pub Vec<String>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(one_or_many(deserializer)?))
    }
}

/// One stream mode, or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes(pub Vec<StreamMode>);

impl<'de> Deserialize<'de> for Modes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names: Vec<String> = one_or_many(deserializer)?;
        let parse = |name: &String| {
            name.parse().map_err(|_| {
                let known: Vec<&str> = StreamMode::ALL.iter().map(|mode| mode.as_str()).collect();
                de::Error::custom(format!("Input should be one of {}", known.join(", ")))
            })
        };
        Ok(Self(names.iter().map(parse).collect::<Result<_, _>>()?))
    }
}

/// A text or a list of texts, as clients write options.
///
/// # Errors
/// For anything else.
pub fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string or a list of strings")
        }
        fn visit_str<E: de::Error>(self, value: &str) -> Result<Vec<String>, E> {
            Ok(vec![value.to_owned()])
        }
        fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// What happens when a reader goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnectBody {
    /// The run is stopped, its steps kept.
    Cancel,
    /// The run goes on.
    Continue,
}

/// What happens when the thread has a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StrategyBody {
    /// The new run is refused.
    Reject,
    /// The live run is stopped, its steps kept.
    Interrupt,
    /// The live run is taken back.
    Rollback,
    /// The new run waits.
    Enqueue,
}

/// What happens when there is no such thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfNotExistsBody {
    /// It is made.
    Create,
    /// Not found.
    Reject,
}

/// What becomes of the thread of a stateless run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnCompletionBody {
    /// It is deleted.
    Delete,
    /// It stays.
    Keep,
    /// It stays.
    Complete,
    /// It stays.
    Continue,
}

/// A run of a batch. The JavaScript client leaves the names of its own options in it: `assistantId` is `assistant_id`.
#[derive(Debug)]
pub struct BatchBody(pub RunBody);

impl<'de> Deserialize<'de> for BatchBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = JsonMap::new();
        let (snake, camel): (Vec<_>, Vec<_>) = JsonMap::deserialize(deserializer)?
            .into_iter()
            .partition(|(name, _)| !name.bytes().any(|byte| byte.is_ascii_uppercase()));
        fields.extend(snake);
        for (name, value) in camel {
            fields.entry(snake_case(&name)).or_insert(value);
        }
        serde_json::from_value(Value::Object(fields)).map(Self).map_err(de::Error::custom)
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

impl From<&str> for RunBody {
    fn from(text: &str) -> Self {
        Self::say(text)
    }
}

impl From<String> for RunBody {
    fn from(text: String) -> Self {
        Self::say(text)
    }
}

impl RunBody {
    /// A run that answers what a person says.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        let message = json!({"type": "human", "content": text.into()});
        Self { input: Some(json!({"messages": [message]})), ..Self::default() }
    }

    /// A run that goes on with the answer to the open questions: one for all, or an object from question id to answer.
    #[must_use]
    pub fn answer(answer: Value) -> Self {
        let command = CommandBody { resume: Some(answer), ..CommandBody::default() };
        Self { command: Some(command), ..Self::default() }
    }

    /// Sets a key of the context: `model_name`, `thinking_enabled`, `is_plan_mode` …
    #[must_use]
    pub fn with_context(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.context.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Whether it says which model is to answer.
    #[must_use]
    pub fn names_model(&self) -> bool {
        let config = self.config.as_ref();
        let layers = [
            self.context.as_ref(),
            config.and_then(|config| config.context.as_ref()),
            config.and_then(|config| config.configurable.as_ref()),
        ];
        layers.into_iter().flatten().filter_map(|layer| layer.get("model_name")).any(|name| !name.is_null())
    }

    /// The thread that a stateless run names.
    #[must_use]
    pub fn configured_thread(&self) -> Option<Result<ThreadId, String>> {
        let config = self.config.as_ref()?;
        let id = config.configurable.as_ref()?.get("thread_id")?.as_str()?;
        Some(ThreadId::parse(id).map_err(|error| error.to_string()))
    }
}
