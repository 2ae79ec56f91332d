//! Shapes of frames, mode by mode.

use super::{Frame, RunView, StreamMode, Views};
use crate::bridge::{Bridge, EventId, Item, RunEvent, RunStream};
use deerflow_core::ports::StepKind;
use deerflow_core::run::Next;
use deerflow_core::state::{ThreadData, ViewedImage};
use deerflow_core::{
    AgentEvent, CheckpointId, Content, ContentBlock, INTERRUPT_SLOT, Interrupt, JsonMap, Message, MessageDelta,
    NodeUpdate, RunId, StateUpdate, ThreadId, ThreadState, ToolCall, ToolCallChunk, Usage,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

const RUN: &str = "11111111-1111-4111-8111-111111111111";

/// A run that publishes, with its state.
struct Teller {
    stream: Arc<RunStream>,
    bridge: Bridge,
    state: ThreadState,
    seq: u64,
}

impl Teller {
    fn new() -> Self {
        let bridge = Bridge::default();
        let (run_id, thread_id) = (RunId::parse(RUN).unwrap(), ThreadId::parse("t").unwrap());
        let stream = bridge.open(&run_id, &thread_id);
        stream.publish(RunEvent::Metadata { run_id, thread_id });
        Self { stream, bridge, state: ThreadState::default(), seq: 0 }
    }
    fn tell(&self, event: AgentEvent) {
        self.stream.publish(event);
    }
    fn text(&self, message_id: &str, text: &str) {
        self.tell(AgentEvent::ModelDelta { message_id: message_id.into(), delta: MessageDelta::text(text) });
    }
    fn args(&self, message_id: &str, id: Option<&str>, name: Option<&str>, args: &str) {
        let chunk = ToolCallChunk {
            name: name.map(str::to_owned),
            args: Some(args.to_owned()),
            id: id.map(str::to_owned),
            index: Some(0),
        };
        let delta = MessageDelta { tool_calls: vec![chunk], ..MessageDelta::default() };
        self.tell(AgentEvent::ModelDelta { message_id: message_id.into(), delta });
    }
    fn started(&self, message_id: &str) {
        self.tell(AgentEvent::ModelStarted { message_id: message_id.into(), model: "gpt".into() });
    }
    fn commit(&mut self, kind: StepKind, next: Next, updates: Vec<(&str, StateUpdate)>) {
        let mut seqs = Vec::new();
        for (node, update) in updates {
            self.state.apply(&update).unwrap();
            for message in &update.messages {
                self.seq += 1;
                seqs.push(self.seq);
                self.tell(AgentEvent::Message(message.clone()));
            }
            self.tell(AgentEvent::Update(Arc::new(NodeUpdate { node: node.to_owned(), update })));
        }
        self.tell(AgentEvent::Committed {
            checkpoint_id: CheckpointId::parse(format!("c{}", self.seq)).unwrap(),
            parent: None,
            kind,
            step: 0,
            next,
            state: Arc::new(self.state.clone()),
            seqs,
            seq: self.seq,
            usage: Usage::default(),
        });
    }
    fn items(&self) -> Vec<Item> {
        self.stream.close();
        let (run_id, thread_id) = (self.stream.run_id().clone(), self.stream.thread_id().clone());
        let mut reader = self.bridge.subscribe(Arc::new(Nothing), run_id, thread_id, None);
        let mut items = Vec::new();
        while let Some(Some(item)) = futures::FutureExt::now_or_never(reader.next()) {
            items.push(item);
        }
        items
    }
    fn frames(&self, modes: &[StreamMode]) -> Vec<Frame> {
        let mut run = RunView::new(RunId::parse(RUN).unwrap(), ThreadId::parse("t").unwrap());
        run.metadata = JsonMap::from_iter([("tag".to_owned(), json!("x")), ("nested".to_owned(), json!({}))]);
        let mut views = Views::new(modes.iter().copied(), run);
        self.items().iter().flat_map(|item| views.frames(item)).collect()
    }
    /// Names and data, without the first and the last frame.
    fn shown(&self, modes: &[StreamMode]) -> Vec<(String, Value)> {
        let frames = self.frames(modes);
        assert_eq!((frames[0].event.as_str(), frames[0].id), ("metadata", Some(EventId::default())));
        assert_eq!(&*frames[0].data, format!("{{\"run_id\": \"{RUN}\", \"thread_id\": \"t\"}}"));
        let last = frames.last().unwrap();
        assert_eq!((last.event.as_str(), &*last.data, last.id), ("end", "null", None));
        frames[1..frames.len() - 1].iter().map(|f| (f.event.clone(), serde_json::from_str(&f.data).unwrap())).collect()
    }
}

/// A journal that is never asked.
struct Nothing;

#[async_trait::async_trait]
impl crate::bridge::ReplayStore for Nothing {
    async fn rows(
        &self,
        _: &ThreadId,
        _: &RunId,
        _: u64,
        _: u32,
    ) -> Result<Vec<deerflow_core::ports::JournalRow>, deerflow_core::StoreError> {
        panic!("the ring holds everything")
    }
    async fn status(&self, _: &RunId) -> Result<Option<deerflow_core::RunStatus>, deerflow_core::StoreError> {
        panic!("the run is here")
    }
    async fn last_checkpoint(
        &self,
        _: &ThreadId,
        _: &RunId,
    ) -> Result<Option<deerflow_core::ports::Checkpoint>, deerflow_core::StoreError> {
        panic!("the run is here")
    }
}

fn messages(list: Vec<Message>) -> StateUpdate {
    StateUpdate::messages(list)
}

/// The input, a turn with a call, and its result.
fn turn() -> Teller {
    let mut run = Teller::new();
    run.commit(StepKind::Input, Next::Model, vec![("__input__", messages(vec![Message::human("hi").with_id("u")]))]);
    run.started("a");
    run.text("a", "let ");
    run.args("a", Some("c1"), Some("search"), "");
    run.args("a", None, None, "{\"q\"");
    let mut call = Message::ai_calls("let ", vec![ToolCall::new("c1", "search", JsonMap::new())]).with_id("a");
    call.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(3, 4));
    call.response_metadata.insert("finish_reason".into(), json!("tool_calls"));
    let marked = call.clone().with_kwarg("mark", true);
    let title = StateUpdate { title: Some("T".into()), ..StateUpdate::none() };
    run.commit(
        StepKind::Model,
        Next::Tools,
        vec![
            ("model", messages(vec![call])),
            ("Usage.after_model", messages(vec![marked])),
            ("Title.after_model", title),
        ],
    );
    run.tell(AgentEvent::ToolStarted { call_id: "c1".into(), name: "search".into(), args: json!({}) });
    let result = Message::tool("found", "c1", "search").with_id("r");
    run.commit(StepKind::Tools, Next::Model, vec![("tools", messages(vec![result]))]);
    run
}

#[tokio::test]
async fn tuples_are_chunks_with_one_id_then_a_last_one_and_whole_results() {
    let shown = turn().shown(&[StreamMode::MessagesTuple]);
    assert!(shown.iter().all(|(event, _)| event == "messages"));
    let chunk = |content: &str| {
        json!({
            "content": content, "additional_kwargs": {}, "response_metadata": {}, "type": "AIMessageChunk",
            "name": null, "id": "a", "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
            "tool_call_chunks": [], "chunk_position": null,
        })
    };
    assert_eq!(shown[0].1[0], chunk("let "));
    let metadata = json!({
        "tag": "x", "run_id": RUN, "thread_id": "t", "langgraph_step": 1, "langgraph_node": "model",
        "langgraph_triggers": ["branch:to:model"], "langgraph_path": ["__pregel_pull", "model"],
        "langgraph_checkpoint_ns": "model:a", "checkpoint_ns": "model:a",
        "ls_model_name": "gpt", "ls_model_type": "chat",
    });
    assert_eq!(shown[0].1[1], metadata);
    assert_eq!(
        shown[1].1[0]["tool_call_chunks"],
        json!([{"name": "search", "args": "", "id": "c1", "index": 0, "type": "tool_call_chunk"}])
    );
    assert_eq!(shown[1].1[0]["tool_calls"], json!([{"name": "search", "args": {}, "id": "c1", "type": "tool_call"}]));
    assert_eq!(shown[2].1[0]["tool_call_chunks"][0]["args"], json!("{\"q\""));
    let mut last = chunk("");
    last["chunk_position"] = json!("last");
    last["usage_metadata"] = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
    last["response_metadata"] = json!({"finish_reason": "tool_calls"});
    assert_eq!(shown[3].1, json!([last, metadata]));
    assert_eq!(shown[4].1[0]["type"], "tool");
    assert_eq!(shown[4].1[1]["langgraph_node"], "tools");
    assert_eq!(shown.len(), 5, "the message that a hook wrote again is not told again, nor is the input");
}

#[tokio::test]
async fn updates_name_their_nodes_and_values_come_once_a_step() {
    let shown = turn().shown(&[StreamMode::Updates, StreamMode::Values]);
    let names: Vec<_> = shown
        .iter()
        .map(|(event, data)| {
            let key = data.as_object().unwrap().keys().next().unwrap().clone();
            if event == "values" { event.clone() } else { key }
        })
        .collect();
    assert_eq!(names, ["values", "model", "Usage.after_model", "Title.after_model", "values", "tools", "values"]);
    assert_eq!(shown[3].1, json!({"Title.after_model": {"title": "T"}}));
    let last = &shown[6].1;
    assert_eq!(last["title"], "T");
    assert_eq!(last["messages"].as_array().unwrap().len(), 3);
    assert_eq!(last["messages"][1]["additional_kwargs"], json!({"mark": true}));
}

#[tokio::test]
async fn a_platform_reader_gets_each_message_as_far_as_it_is() {
    let shown = turn().shown(&[StreamMode::Messages]);
    let told: Vec<_> = shown.iter().map(|(event, data)| (event.as_str(), data.clone())).collect();
    assert_eq!(told[0].0, "messages/metadata");
    assert_eq!(told[0].1["a"]["metadata"]["langgraph_node"], "model");
    assert_eq!((told[1].0, &told[1].1[0]["content"]), ("messages/partial", &json!("let ")));
    assert_eq!(told[1].1[0]["type"], "ai");
    assert_eq!((told[2].0, told[3].0, told[4].0), ("messages/partial", "messages/partial", "messages/complete"));
    assert_eq!(told[4].1[0]["tool_calls"][0]["id"], "c1");
    assert_eq!((told[5].0, told[6].0), ("messages/metadata", "messages/complete"));
    assert_eq!(told[6].1[0]["content"], "found");
    assert_eq!(told.len(), 7);
}

#[tokio::test]
async fn tasks_begin_and_end_under_one_id_and_debug_wraps_them() {
    let run = turn();
    let tasks = run.shown(&[StreamMode::Tasks]);
    let told: Vec<_> = tasks.iter().map(|(_, t)| (t["name"].as_str().unwrap(), t.get("result").is_some())).collect();
    let hook = [("Usage.after_model", false), ("Usage.after_model", true)];
    let title = [("Title.after_model", false), ("Title.after_model", true)];
    assert_eq!(
        told,
        [&[("model", false), ("model", true)][..], &hook, &title, &[("tools", false), ("tools", true)]].concat()
    );
    assert_eq!(tasks[0].1["id"], tasks[1].1["id"]);
    assert_eq!(tasks[6].1["id"], tasks[7].1["id"]);
    assert_eq!(tasks[6].1["input"]["tool_call"]["name"], "search");
    assert_eq!(tasks[7].1["result"]["messages"][0]["content"], "found");
    let debugs = run.shown(&[StreamMode::Debug]);
    let kinds: Vec<_> = debugs.iter().map(|(_, d)| d["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "checkpoint").count(), 3);
    assert_eq!(debugs[1].1["payload"], tasks[0].1);
    assert!(debugs[1].1["timestamp"].as_str().unwrap().ends_with("+00:00"));
}

#[tokio::test]
async fn checkpoints_say_where_a_thread_stands() {
    let shown = turn().shown(&[StreamMode::Checkpoints]);
    let second = &shown[1].1;
    assert_eq!(
        second["config"],
        json!({"configurable": {"checkpoint_ns": "", "thread_id": "t", "checkpoint_id": "c3"}})
    );
    assert_eq!((&second["next"], &second["metadata"]["source"]), (&json!(["tools"]), &json!("loop")));
    assert_eq!(second["tasks"][0]["name"], "tools");
    assert_eq!(second["values"]["title"], "T");
    assert_eq!(shown[0].1["metadata"]["source"], "input");
}

#[tokio::test]
async fn events_pair_starts_with_ends() {
    let shown = turn().shown(&[StreamMode::Events]);
    let told: Vec<_> = shown.iter().map(|(_, e)| e["event"].as_str().unwrap()).collect();
    let chain = "on_chain_stream";
    let stream = "on_chat_model_stream";
    assert_eq!(
        told,
        [
            "on_chain_start",
            "on_chat_model_start",
            stream,
            stream,
            stream,
            "on_chat_model_end",
            chain,
            chain,
            chain,
            "on_tool_start",
            "on_tool_end",
            chain,
            "on_chain_end"
        ]
    );
    let (start, end) = (&shown[9].1, &shown[10].1);
    assert_eq!((&start["name"], &start["run_id"]), (&json!("search"), &end["run_id"]));
    assert_eq!(end["data"]["output"]["content"], "found");
    assert_eq!(shown[1].1["data"]["input"]["messages"][0][0]["content"], "hi");
    assert_eq!(shown[12].1["data"]["output"]["title"], "T");
    assert_eq!(shown[2].1["parent_ids"], json!([RUN]));
}

/// A turn made again: the state that counts, then a note; the new attempt has another id.
#[tokio::test]
async fn a_discarded_attempt_is_taken_back() {
    let mut run = Teller::new();
    run.commit(StepKind::Input, Next::Model, vec![("__input__", messages(vec![Message::human("hi").with_id("u")]))]);
    for (id, shown) in [("silent", false), ("void", true)] {
        run.started(id);
        if shown {
            run.text(id, "wro");
        }
        run.tell(AgentEvent::ModelDiscarded { message_id: id.into() });
    }
    run.started("a");
    run.text("a", "right");
    run.commit(StepKind::Model, Next::End, vec![("model", messages(vec![Message::ai("right").with_id("a")]))]);
    let shown = run.shown(&[StreamMode::Values, StreamMode::MessagesTuple, StreamMode::Custom]);
    let names: Vec<_> = shown.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(names, ["values", "messages", "values", "custom", "messages", "messages", "values"]);
    assert_eq!(shown[2].1["messages"].as_array().unwrap().len(), 1);
    assert_eq!(shown[3].1, json!({"type": "model_attempt_discarded", "message_id": "void"}));
}

#[tokio::test]
async fn questions_show_in_updates_and_values_and_nothing_private_does() {
    let mut run = Teller::new();
    let question = Interrupt { id: "q".into(), value: json!({"ask": 1}), node: "Approval".into() };
    let slot = StateUpdate { private: [(INTERRUPT_SLOT.into(), json!([question]))].into(), ..StateUpdate::none() };
    run.commit(StepKind::Model, Next::Wait, vec![(INTERRUPT_SLOT, slot)]);
    run.tell(AgentEvent::Interrupted(vec![question]));
    let shown = run.shown(&[StreamMode::Values, StreamMode::Updates, StreamMode::Checkpoints]);
    let asked = json!([{"value": {"ask": 1}, "id": "q"}]);
    assert_eq!(shown[0].1["__interrupt__"], asked);
    assert_eq!(shown[0].1.get("__private"), None);
    assert_eq!((&shown[1].1["next"], &shown[1].1["tasks"][0]["interrupts"]), (&json!(["Approval"]), &asked));
    assert_eq!(shown[2].1, json!({"__interrupt__": asked}));
    assert_eq!(super::values::state_json(&run.state).get("__interrupt__"), None);
}

#[tokio::test]
async fn no_path_of_the_machine_and_no_hidden_image_is_shown() {
    let mut run = Teller::new();
    let image = ContentBlock::ImageUrl("data:image/png;base64,AAAA".into());
    let blocks = || Content::Blocks(vec![ContentBlock::Text("look".into()), image.clone()]);
    let hidden = Message::human(blocks()).with_id("h").hidden();
    let open = Message::human(blocks()).with_id("o");
    let viewed = ViewedImage {
        mime_type: "image/png".into(),
        size: 4,
        actual_path: "/srv/secret/a.png".into(),
        sha256: None,
        source_sandbox_id: None,
        blob_ref: None,
    };
    let update = StateUpdate {
        thread_data: Some(ThreadData { workspace_path: Some("/srv/secret".into()), ..ThreadData::default() }),
        viewed_images: Some([("/mnt/user-data/uploads/a.png".to_owned(), viewed)].into_iter().collect()),
        ..messages(vec![hidden, open])
    };
    run.commit(StepKind::Input, Next::Model, vec![("ViewImage.before_model", update)]);
    let frames = run.frames(&StreamMode::ALL);
    assert!(frames.iter().all(|frame| !frame.data.contains("/srv/secret")), "{frames:?}");
    let (values, _) = (run.shown(&[StreamMode::Values]), ());
    assert_eq!(values[0].1["messages"][0]["content"], json!([{"type": "text", "text": "look"}]));
    assert_eq!(values[0].1["messages"][1]["content"].as_array().unwrap().len(), 2);
    let stored = super::values::state_json(&run.state);
    assert_eq!(stored["messages"][0]["content"].as_array().unwrap().len(), 2, "only streams leave it out");
    assert_eq!(stored["viewed_images"]["/mnt/user-data/uploads/a.png"]["actual_path"], "/mnt/user-data/uploads/a.png");
    assert!(!stored.to_string().contains("/srv/secret"));
}

#[test]
fn the_empty_state_has_its_lists() {
    assert_eq!(
        super::values::state_json(&ThreadState::default()),
        json!({"messages": [], "artifacts": [], "viewed_images": {}, "delegations": [], "skill_context": []})
    );
}

/// Pieces of a file's text: 32 a frame beside `values`, each on its own otherwise; nothing lost, order kept.
#[tokio::test]
async fn arguments_of_file_writes_are_coalesced_beside_values() {
    let mut run = Teller::new();
    run.started("a");
    run.text("a", "writing");
    run.args("a", Some("c1"), Some("write_file"), "");
    (0..70).for_each(|n| run.args("a", None, None, &format!("{n},")));
    run.tell(AgentEvent::Custom(json!({"type": "note"})));
    run.args("a", None, None, "end");
    run.commit(StepKind::Model, Next::End, vec![("model", messages(vec![Message::ai("writing").with_id("a")]))]);
    let text = |frames: &[(String, Value)]| -> String {
        let tuples = frames.iter().filter(|(event, _)| event == "messages");
        tuples.map(|(_, d)| d[0]["tool_call_chunks"][0]["args"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let alone = run.shown(&[StreamMode::MessagesTuple, StreamMode::Custom]);
    let beside = run.shown(&[StreamMode::MessagesTuple, StreamMode::Custom, StreamMode::Values]);
    let names: Vec<_> = beside.iter().map(|(event, _)| event.as_str()).collect();
    let expected = ["messages", "messages", "messages", "messages", "custom", "messages", "messages", "values"];
    assert_eq!(names, expected);
    assert_eq!(text(&beside), text(&alone));
    assert_eq!(alone.len(), 75);
    assert_eq!(beside[1].1[0]["tool_call_chunks"][0]["name"], "write_file");
}
