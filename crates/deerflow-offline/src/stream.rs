//! The reply as a stream, like that of any other model.

use crate::next::next;
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
        let (name, provider, model) = ("offline".to_owned(), "offline".to_owned(), MODEL.to_owned());
        Self { info: ModelInfo { name, provider, model, context_window: Some(1_000_000), ..ModelInfo::default() } }
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

    /// Must be polled in a tokio runtime: large files take a while to score. Usage is an estimate: one token for four
    /// characters of the messages. The only errors are `Cancelled`, and `BadResponse` if the rules themselves fail.
    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let events = async move {
            let work = async { tokio::task::spawn_blocking(move || events(&request)).await };
            match cancel.run_until_cancelled(work).await {
                None => vec![Err(ModelError::cancelled())],
                Some(Ok(events)) => events.into_iter().map(Ok).collect(),
                Some(Err(error)) => {
                    tracing::error!(%error, "the offline model failed");
                    let what = "the offline model failed on this conversation";
                    vec![Err(ModelError::new(ModelErrorKind::BadResponse, what))]
                }
            }
        };
        futures::stream::once(events).flat_map(futures::stream::iter).boxed()
    }
}

fn events(request: &ChatRequest) -> Vec<ModelEvent> {
    let (text, calls) = next(request);
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let words: Vec<&str> = text.split_inclusive([' ', '\n', '，', '。']).collect();
    let mut deltas: Vec<MessageDelta> = words.chunks(GROUP).map(|group| MessageDelta::text(group.concat())).collect();
    let mut output = text.chars().count();
    for (index, (name, args)) in calls.into_iter().enumerate() {
        let (name, args) = (name.to_owned(), args.to_string());
        output += name.len() + args.chars().count();
        let id = Some(format!("offline_{}_{index}", request.messages.len()));
        let call = ToolCallChunk { name: Some(name), args: Some(args), id, index: u32::try_from(index).ok() };
        deltas.push(MessageDelta { tool_calls: vec![call], ..MessageDelta::default() });
    }
    let input: usize = request.messages.iter().map(|message| message.text().chars().count()).sum();
    let usage = Some(Usage::new(input.div_ceil(4) as u64, output.div_ceil(4) as u64));
    deltas.push(MessageDelta { usage, ..MessageDelta::default() });
    let mut turn = TurnAccumulator::default();
    deltas.iter().for_each(|delta| turn.push(delta));
    turn.set_metadata("model_name", MODEL);
    turn.set_metadata("finish_reason", finish);
    turn.set_metadata("offline", true);
    let finished = ModelEvent::Finished(Box::new(ModelTurn { message: turn.finish() }));
    deltas.into_iter().map(ModelEvent::Delta).chain([finished]).collect()
}
