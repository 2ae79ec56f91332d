//! The body that creates a run: everything the SDKs send.

use deerflow_core::{JsonMap, ThreadId};
use deerflow_runtime::StreamMode;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
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
#[expect(dead_code, reason = "some options are accepted and described, though nothing hangs on them here")]
pub(crate) struct RunBody {
    /// `lead_agent`, or the name of a custom agent.
    #[schema(example = "lead_agent")]
    pub(crate) assistant_id: Option<String>,
    /// New messages under `messages`, and other channels of the state. Without input the run goes on where the thread stands.
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<Value>,
    /// Answers a question, writes to the state, or says where to go on.
    pub(crate) command: Option<CommandBody>,
    /// What clients keep with the run.
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<JsonMap>,
    /// LangChain's `RunnableConfig`.
    pub(crate) config: Option<ConfigBody>,
    /// Model and ways of working: `model_name`, `thinking_enabled`, `reasoning_effort`, `is_plan_mode` …
    #[schema(value_type = Option<Object>)]
    pub(crate) context: Option<JsonMap>,
    /// Where in the history to begin; wins over `checkpoint_id`.
    pub(crate) checkpoint: Option<CheckpointBody>,
    /// Where in the history to begin.
    pub(crate) checkpoint_id: Option<String>,
    /// Nodes before which the run stops: `model`, `tools`, or `"*"`.
    pub(crate) interrupt_before: Option<Nodes>,
    /// Nodes after which the run stops.
    pub(crate) interrupt_after: Option<Nodes>,
    /// What is streamed; `values` when absent.
    #[schema(value_type = Option<Vec<String>>)]
    pub(crate) stream_mode: Option<Modes>,
    /// Stream sub-agents too.
    pub(crate) stream_subgraphs: Option<bool>,
    /// Accepted: every stream here can be resumed.
    pub(crate) stream_resumable: Option<bool>,
    /// Whether the run ends when its reader goes away; `continue` when absent.
    pub(crate) on_disconnect: Option<OnDisconnectBody>,
    /// What happens when the thread has a live run; `reject` when absent.
    pub(crate) multitask_strategy: Option<StrategyBody>,
    /// What happens when there is no such thread; `create` for stateless runs.
    pub(crate) if_not_exists: Option<IfNotExistsBody>,
    /// Address that is told of the end.
    pub(crate) webhook: Option<String>,
    /// Whether a thread made for a stateless run stays; `keep` when absent.
    pub(crate) on_completion: Option<OnCompletionBody>,
    /// Seconds to wait before the run begins.
    #[schema(minimum = 0)]
    pub(crate) after_seconds: Option<f64>,
    /// Accepted: feedback is given through its own routes.
    pub(crate) feedback_keys: Option<Vec<String>>,
    /// Accepted: every step is durable before it is told.
    #[schema(value_type = Option<String>)]
    pub(crate) durability: Option<Value>,
    /// Accepted, as `durability`.
    #[schema(value_type = Option<bool>)]
    pub(crate) checkpoint_during: Option<Value>,
    /// Accepted and ignored.
    #[schema(value_type = Option<Object>)]
    pub(crate) langsmith_tracer: Option<Value>,
    /// Accepted: an answer that fits no question is always refused.
    pub(crate) strict_resume: Option<bool>,
}

/// Steers where a run begins.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandBody {
    /// Answer to the open questions.
    #[schema(value_type = Object)]
    pub(crate) resume: Option<Value>,
    /// Writes to the state: an object of channels, or a list of pairs.
    #[schema(value_type = Object)]
    pub(crate) update: Option<Value>,
    /// Node to go on with.
    #[schema(value_type = Object)]
    pub(crate) goto: Option<Value>,
}

/// LangChain's `RunnableConfig`, as far as it means something here.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub(crate) struct ConfigBody {
    /// Model turns, at most `max_recursion_limit` of the configuration.
    #[schema(value_type = Option<u32>)]
    pub(crate) recursion_limit: Option<Value>,
    /// As `context` of the run.
    #[schema(value_type = Option<Object>)]
    pub(crate) configurable: Option<JsonMap>,
    /// As `context` of the run.
    #[schema(value_type = Option<Object>)]
    pub(crate) context: Option<JsonMap>,
    /// What clients keep with the run.
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<JsonMap>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(crate) rest: JsonMap,
}

/// A place in a thread's history.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
pub(crate) struct CheckpointBody {
    /// The thread; must be that of the run.
    #[schema(value_type = Option<String>)]
    pub(crate) thread_id: Option<String>,
    /// Empty for the thread itself.
    pub(crate) checkpoint_ns: Option<String>,
    /// The checkpoint; without it nothing is chosen.
    pub(crate) checkpoint_id: Option<String>,
    /// Accepted and ignored.
    #[schema(value_type = Option<Object>)]
    pub(crate) checkpoint_map: Option<Value>,
}

/// Some nodes, or all of them.
#[derive(Debug, Clone, PartialEq, ToSchema)]
#[schema(value_type = Vec<String>)]
pub(crate) struct Nodes(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(one_or_many(deserializer)?))
    }
}

/// One stream mode, or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Modes(pub(crate) Vec<StreamMode>);

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

pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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
pub(crate) enum OnDisconnectBody {
    Cancel,
    Continue,
}

/// What happens when the thread has a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StrategyBody {
    Reject,
    Interrupt,
    Rollback,
    Enqueue,
}

/// What happens when there is no such thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfNotExistsBody {
    Create,
    Reject,
}

/// What becomes of the thread of a stateless run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCompletionBody {
    Delete,
    Keep,
    Complete,
    Continue,
}

/// A run of a batch. The JavaScript client leaves the names of its own options in it: `assistantId` is `assistant_id`.
#[derive(Debug)]
pub(crate) struct BatchBody(pub(crate) RunBody);

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

impl RunBody {
    /// The thread that a stateless run names.
    pub(crate) fn configured_thread(&self) -> Option<Result<ThreadId, String>> {
        let config = self.config.as_ref()?;
        let id = config.configurable.as_ref()?.get("thread_id")?.as_str()?;
        Some(ThreadId::parse(id).map_err(|error| error.to_string()))
    }
}
