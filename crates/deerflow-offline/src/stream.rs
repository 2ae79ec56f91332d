//! The reply as a stream, like that of any other model.

use crate::next::{Reply, next};
use deerflow_core::{
    ChatModel, ChatRequest, MessageDelta, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelTurn, ToolCallChunk,
    TurnAccumulator, Usage,
};
use futures::{StreamExt, stream::BoxStream};
use tokio_util::sync::CancellationToken;

/// Name of the rule set, as other providers name a model.
const MODEL: &str = "offline-extractive-1";
/// Words in a delta.
const GROUP: usize = 4;

/// The built-in rule-based model.
#[derive(Debug, Clone)]
pub struct OfflineModel {
    info: ModelInfo,
}

impl OfflineModel {
    /// The model under its usual name, `offline`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            info: ModelInfo {
                name: "offline".to_owned(),
                provider: "offline".to_owned(),
                model: MODEL.to_owned(),
                context_window: Some(1_000_000),
                supports_vision: false,
                supports_thinking: false,
            },
        }
    }
}

impl Default for OfflineModel {
    fn default() -> Self {
        Self::new()
    }
}

impl ChatModel for OfflineModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Usage is an estimate of one token for four characters. The only errors are `Cancelled`, and `BadResponse` if the
    /// rules themselves fail.
    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let stop = cancel.clone();
        let events = async move {
            // Large files take a while to score; outside a runtime there is nobody to hold up.
            let work = move || events(&request);
            if tokio::runtime::Handle::try_current().is_err() {
                return work();
            }
            tokio::select! {
                () = stop.cancelled() => vec![Err(ModelError::cancelled())],
                done = tokio::task::spawn_blocking(work) => done.unwrap_or_else(|error| {
                    tracing::error!(%error, "the offline model failed");
                    vec![Err(ModelError::new(ModelErrorKind::BadResponse, "the offline model failed on this conversation"))]
                }),
            }
        };
        futures::stream::once(events)
            .flat_map(futures::stream::iter)
            .map(move |event| if cancel.is_cancelled() { Err(ModelError::cancelled()) } else { event })
            .scan(false, |failed, event| {
                let go_on = !*failed;
                *failed = event.is_err();
                futures::future::ready(go_on.then_some(event))
            })
            .boxed()
    }
}

fn events(request: &ChatRequest) -> Vec<Result<ModelEvent, ModelError>> {
    let Reply { text, calls } = next(request);
    let mut deltas: Vec<MessageDelta> = word_groups(&text).into_iter().map(MessageDelta::text).collect();
    let mut output = text.chars().count();
    let turn = request.messages.len();
    for (index, (name, args)) in calls.iter().enumerate() {
        let json = serde_json::Value::Object(args.clone()).to_string();
        output += name.len() + json.chars().count();
        let at = u32::try_from(index).ok();
        let id = format!("offline_{turn}_{index}");
        let open = ToolCallChunk { name: Some(name.clone()), args: None, id: Some(id), index: at };
        deltas.push(MessageDelta { tool_calls: vec![open], ..MessageDelta::default() });
        deltas.extend(word_groups(&json).into_iter().map(|piece| {
            let piece = ToolCallChunk { args: Some(piece), index: at, ..ToolCallChunk::default() };
            MessageDelta { tool_calls: vec![piece], ..MessageDelta::default() }
        }));
    }
    let usage = Some(Usage::new(input_chars(request).div_ceil(4) as u64, output.div_ceil(4) as u64));
    deltas.push(MessageDelta { usage, ..MessageDelta::default() });
    let mut turn = TurnAccumulator::default();
    deltas.iter().for_each(|delta| turn.push(delta));
    turn.set_metadata("model_name", MODEL);
    turn.set_metadata("finish_reason", if calls.is_empty() { "stop" } else { "tool_calls" });
    turn.set_metadata("offline", true);
    let finished = ModelEvent::Finished(Box::new(ModelTurn { message: turn.finish() }));
    deltas.into_iter().map(ModelEvent::Delta).chain([finished]).map(Ok).collect()
}

fn word_groups(text: &str) -> Vec<String> {
    let (mut groups, mut group, mut words) = (Vec::new(), String::new(), 0);
    for piece in text.split_inclusive([' ', '\n', '，', '。']) {
        group.push_str(piece);
        words += 1;
        if words == GROUP || piece.ends_with('\n') {
            groups.push(std::mem::take(&mut group));
            words = 0;
        }
    }
    groups.extend(Some(group).filter(|rest| !rest.is_empty()));
    groups
}

fn input_chars(request: &ChatRequest) -> usize {
    let messages = request.messages.iter().map(|message| {
        let calls =
            message.tool_calls().iter().map(|call| call.name.len() + call.args.values().map(size).sum::<usize>());
        message.text().chars().count() + calls.sum::<usize>()
    });
    let tools = request.tools.iter().map(|tool| tool.description.len() + size(&tool.parameters));
    request.system.as_deref().map_or(0, str::len) + messages.sum::<usize>() + tools.sum::<usize>()
}

fn size(value: &serde_json::Value) -> usize {
    value.to_string().len()
}
