//! The next reply (read, write, present, answer), as a stream like that of any other model.

use crate::conversation::{Document, Turn};
use crate::findings::Findings;
use crate::lexicon::{Ask, has};
use crate::report;
use deerflow_core::{
    ChatModel, ChatRequest, MessageDelta, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelTurn, ToolCallChunk,
    ToolChoice, TurnAccumulator, Usage,
};
use futures::{StreamExt, stream::BoxStream};
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio_util::sync::CancellationToken;

/// Name of the rule set, as other providers name a model.
const MODEL: &str = "offline-extractive-1";
/// Replies of a turn that may ask for more of a file.
const MAX_ROUNDS: usize = 20;

/// What to say, and which tools to call: each with its arguments, an object.
type Reply = (String, Vec<(&'static str, Value)>);

static INFO: LazyLock<ModelInfo> = LazyLock::new(|| {
    let (name, provider, model) = ("offline".to_owned(), "offline".to_owned(), MODEL.to_owned());
    ModelInfo { name, provider, model, context_window: Some(1_000_000), ..ModelInfo::default() }
});

/// The built-in rule-based model.
#[derive(Debug, Clone, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// The model under its usual name, `offline`.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl ChatModel for OfflineModel {
    fn info(&self) -> &ModelInfo {
        &INFO
    }

    /// Must be polled in a tokio runtime: large files take a while to score. Usage is an estimate: one token for four
    /// characters of the messages. The only errors are `Cancelled`, and `BadResponse` if the rules themselves fail.
    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let events = async move {
            let work = tokio::task::spawn_blocking(move || events(&request));
            match cancel.run_until_cancelled(work).await {
                None => vec![Err(ModelError::cancelled())],
                Some(Ok(events)) => events,
                Some(Err(error)) => vec![Err(ModelError::new(ModelErrorKind::BadResponse, error.to_string()))],
            }
        };
        futures::stream::once(events).flat_map(futures::stream::iter).boxed()
    }
}

/// The next turn of this conversation.
fn next(chat: &ChatRequest) -> Reply {
    let turn = Turn::read(&chat.messages);
    let ask = Ask::new(&turn.request);
    let is = |cue| has(cue, &ask.text);
    let answer = |text: String| (text, Vec::new());
    let call = |why: &str, calls| (ask.say_of("step", ask.say(why)), calls);
    let offered = |tool: &str| chat.tool_choice != ToolChoice::None && chat.tools.iter().any(|spec| spec.name == tool);
    let attached = turn.fresh > 0;
    if is("cannot") || turn.documents.is_empty() || (!attached && is("small-talk")) {
        return answer(format!("{}\n\n{}", ask.say("about"), ask.say("configure")));
    }
    // Without new files those of before are meant.
    let documents = &turn.documents[if attached { turn.documents.len() - turn.fresh } else { 0 }..];
    let read = |document: &Document| {
        let args = json!({"description": ask.say("read"), "path": document.path, "start_line": document.next?});
        (turn.steps < MAX_ROUNDS && offered("read_file")).then_some(("read_file", args))
    };
    let due: Vec<_> = documents.iter().filter_map(read).collect();
    if !due.is_empty() {
        return call("read", due);
    }
    let found = Findings::new(&ask, documents);
    if found.documents.is_empty() {
        return answer(report::unreadable(&found));
    }
    let last = match &turn.written {
        Some(Ok(path)) if !turn.presented && offered("present_files") => {
            return call("present", vec![("present_files", json!({"filepaths": [path]}))]);
        }
        Some(Ok(path)) => ask.say_of("report-at", path.rsplit('/').next().unwrap_or(path)),
        Some(Err(error)) => ask.say_of("not-written", error),
        None if found.off_topic || (!attached && !is("writes")) => String::new(),
        None if !offered("write_file") => ask.say("no-tool").to_owned(),
        None => {
            let (path, content) = (format!("/mnt/user-data/outputs/{}", report::name(&found)), report::write(&found));
            let args = json!({"description": ask.say("write"), "path": path, "content": content});
            return call("write", vec![("write_file", args)]);
        }
    };
    answer(report::summary(&found, &last))
}

/// The next reply as the events of a stream.
fn events(request: &ChatRequest) -> Vec<Result<ModelEvent, ModelError>> {
    let (text, calls) = next(request);
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let tokens = |chars: usize| chars.div_ceil(4) as u64;
    let input = request.messages.iter().map(|message| message.text().chars().count()).sum();
    let output = text.chars().count() + calls.iter().map(|(_, args)| args.to_string().chars().count()).sum::<usize>();
    let usage = Some(Usage::new(tokens(input), tokens(output)));
    let call = |((name, args), index): ((&str, Value), u32)| {
        let id = Some(format!("offline_{}_{index}", request.messages.len()));
        ToolCallChunk { name: Some(name.to_owned()), args: Some(args.to_string()), id, index: Some(index) }
    };
    let tool_calls = calls.into_iter().zip(0..).map(call).collect();
    let words = text.split_inclusive([' ', '\n', '，', '。']).map(MessageDelta::text);
    let deltas: Vec<_> = words.chain([MessageDelta { tool_calls, usage, ..MessageDelta::default() }]).collect();
    let mut turn = TurnAccumulator::default();
    deltas.iter().for_each(|delta| turn.push(delta));
    turn.set_metadata("model_name", MODEL);
    turn.set_metadata("finish_reason", finish);
    turn.set_metadata("offline", true);
    let finished = ModelEvent::Finished(Box::new(ModelTurn { message: turn.finish() }));
    deltas.into_iter().map(ModelEvent::Delta).chain([finished]).map(Ok).collect()
}
