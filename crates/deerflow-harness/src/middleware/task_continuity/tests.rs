use super::super::testing::{context, script};
use super::index::Index;
use super::*;
use crate::middleware::{
    CompactError, CompactOptions, ContextSize, DeerFlowSummarizationMiddleware, SummarizationConfig, Trigger, compact,
};
use async_trait::async_trait;
use deerflow_agent::Middleware;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{ArchiveHit, ArchivePage, ArchiveRecord, ArchiveRole, ArchivedBatch};
use deerflow_core::{
    AgentError, EventSink, Message, StateUpdate, StoreError, ThreadId, ThreadState, ToolCall, ToolContext, ToolError,
    ToolOutput, UserId, text,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Mutex;

/// An archive in memory, as far as the tools can see.
#[derive(Default)]
struct Shelf {
    records: Mutex<Vec<ArchiveRecord>>,
    refuses: Option<fn() -> StoreError>,
}

fn source(at: usize) -> String {
    format!("r{at:032x}")
}

#[async_trait]
impl HistoryArchive for Shelf {
    async fn archive(
        &self,
        _: &UserId,
        _: &ThreadId,
        records: Vec<ArchiveRecord>,
        _: ArchiveLimits,
    ) -> Result<ArchivedBatch, StoreError> {
        if let Some(error) = self.refuses {
            return Err(error());
        }
        let mut held = self.records.lock().unwrap();
        let batch = ArchivedBatch {
            batch_id: format!("b{:032x}", held.len()),
            digest: "0".repeat(64),
            records: records.len() as u64,
            omitted_records: 0,
        };
        held.extend(records);
        Ok(batch)
    }
    async fn search_archive(
        &self,
        _: &UserId,
        _: &ThreadId,
        query: &str,
        role: Option<ArchiveRole>,
        limit: u32,
    ) -> Result<Vec<ArchiveHit>, StoreError> {
        let held = self.records.lock().unwrap();
        let hits =
            held.iter().enumerate().filter(|(_, r)| r.text.contains(query) && role.is_none_or(|role| role == r.role));
        let hit = |(at, r): (usize, &ArchiveRecord)| ArchiveHit {
            source_id: source(at),
            role: r.role,
            excerpt: text::head(&r.text, 600).to_owned(),
            created_at: 0,
        };
        Ok(hits.map(hit).take(limit as usize).collect())
    }
    async fn read_archive(
        &self,
        _: &UserId,
        _: &ThreadId,
        id: &str,
        offset: u64,
    ) -> Result<Option<ArchivePage>, StoreError> {
        let held = self.records.lock().unwrap();
        let found = held.iter().enumerate().find(|(at, _)| source(*at) == id);
        Ok(found.map(|(_, r)| {
            let total = r.text.chars().count() as u64;
            let page: String = r.text.chars().skip(offset as usize).take(4000).collect();
            let end = offset + page.chars().count() as u64;
            ArchivePage {
                source_id: id.to_owned(),
                role: r.role,
                text: page,
                total_chars: total,
                next_offset: (end < total).then_some(end),
            }
        }))
    }
}

fn on() -> TaskContinuityConfig {
    TaskContinuityConfig { enabled: true, ..TaskContinuityConfig::default() }
}

fn continuity(shelf: &Arc<Shelf>) -> TaskContinuity {
    TaskContinuity::new(&on(), shelf.clone()).unwrap()
}

fn summarizer(shelf: &Arc<Shelf>) -> DeerFlowSummarizationMiddleware {
    let config = SummarizationConfig {
        trigger: Some(Trigger::One(ContextSize::messages(3))),
        keep: ContextSize::messages(1),
        ..SummarizationConfig::default()
    };
    DeerFlowSummarizationMiddleware::new(config, script((0..9).map(|_| Message::ai("s")).collect()), None)
        .with_hook(continuity(shelf).hook())
}

fn conversation() -> ThreadState {
    let mut state = ThreadState::default();
    let messages = [
        Message::human("<current_uploads/>\n\nplease read").with_kwarg(kwargs::ORIGINAL_USER_CONTENT, "please read"),
        Message::human("nudge").hidden(),
        Message::system("rule").hidden(),
        Message::ai_calls("", vec![ToolCall::new("c", "bash", Default::default())]),
        Message::tool("the figure is 42", "c", "bash"),
        Message::ai("it is 42"),
        Message::human("and now?"),
    ];
    state.apply(&StateUpdate::messages(messages)).unwrap();
    state
}

#[tokio::test]
async fn what_was_visible_is_archived_and_indexed_in_the_same_write() {
    let shelf = Arc::new(Shelf::default());
    let mut state = conversation();
    let hook = summarizer(&shelf).before_model(&context(), &state).await.unwrap();
    state.apply(&hook.update).unwrap();
    let records: Vec<_> =
        shelf.records.lock().unwrap().iter().map(|r| format!("{}: {}", r.role.as_str(), r.text)).collect();
    assert_eq!(records, ["user: please read", "tool: the figure is 42", "assistant: it is 42"]);
    let index = state.task_history.clone().unwrap();
    assert_eq!((&index["status"], &index["batches"][0]["records"]), (&json!("available"), &json!(3)));
    // The next compaction adds to it.
    let more = (0..4).map(|n| Message::ai(format!("more {n}")));
    state.apply(&StateUpdate::messages(more)).unwrap();
    let hook = summarizer(&shelf).before_model(&context(), &state).await.unwrap();
    assert_eq!(hook.update.task_history.unwrap()["batches"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_thread_the_archive_does_not_know_is_compacted_and_a_broken_store_ends_the_run() {
    let unknown = Arc::new(Shelf {
        refuses: Some(|| StoreError::NotFound { what: "thread", id: "t".into() }),
        ..Shelf::default()
    });
    let hook = summarizer(&unknown).before_model(&context(), &conversation()).await.unwrap();
    let index = hook.update.task_history.unwrap();
    assert_eq!(index, json!({"version": 1, "status": "unavailable", "batches": [], "lost_batches": 1}));
    let broken = Arc::new(Shelf { refuses: Some(|| StoreError::Damaged("x".into())), ..Shelf::default() });
    let error = summarizer(&broken).before_model(&context(), &conversation()).await.unwrap_err();
    assert!(matches!(error, AgentError::Store(_)));
    let error =
        compact(&summarizer(&broken), &context(), &conversation(), CompactOptions::default()).await.unwrap_err();
    assert!(matches!(error, CompactError::Run(AgentError::Store(_))));
}

#[tokio::test]
async fn sub_agents_leave_the_history_of_their_parent_alone_and_off_is_off() {
    let shelf = Arc::new(Shelf::default());
    let mut ctx = context();
    ctx.namespace = "child".into();
    let hook = summarizer(&shelf).before_model(&ctx, &conversation()).await.unwrap();
    assert!(hook.update.summary_text.is_some() && hook.update.task_history.is_none());
    assert_eq!(shelf.records.lock().unwrap().len(), 0);
    assert!(TaskContinuity::new(&TaskContinuityConfig::default(), shelf).is_none());
}

#[test]
fn a_damaged_index_is_unavailable_and_keeps_what_is_valid() {
    let good = json!({"batch_id": format!("b{}", "a".repeat(32)), "digest": "f".repeat(64), "records": 2, "omitted_records": 0});
    let mut short = good.clone();
    short["digest"] = json!("ff");
    let mut negative = good.clone();
    negative["omitted_records"] = json!(-1);
    let whole = json!({"version": 1, "status": "available", "batches": [good]});
    assert_eq!(Index::read(Some(&whole)).write(), whole);
    for bad in [
        json!({"status": "available", "batches": [good, short]}),
        json!({"status": "available", "batches": [negative, good]}),
        json!({"status": "fine", "batches": [good]}),
    ] {
        let index = Index::read(Some(&bad));
        assert_eq!((index.batches.len(), &index.write()["status"]), (1, &json!("unavailable")), "{bad}");
    }
    assert_eq!(Index::read(Some(&json!(7))).write()["status"], "unavailable");
    let mut index = Index::default();
    let batch = |n: usize| ArchivedBatch {
        batch_id: format!("b{n:032}"),
        digest: "0".repeat(64),
        records: 1,
        omitted_records: 0,
    };
    for n in [0, 1, 2, 2, 3] {
        index.add(batch(n), 3);
    }
    assert_eq!(index.batches, [batch(1), batch(2), batch(3)]);
}

fn tool_context(state: ThreadState, index: usize) -> ToolContext {
    let ctx = context();
    ToolContext {
        user_id: ctx.user_id.clone(),
        thread_id: ctx.thread_id.clone(),
        run_id: ctx.run_id.clone(),
        call_id: "c".into(),
        call_index: index,
        namespace: String::new(),
        cancel: ctx.cancel.clone(),
        state: Arc::new(state),
        events: EventSink::none(),
    }
}

async fn call(shelf: &Arc<Shelf>, name: &str, args: Value) -> Result<ToolOutput, String> {
    run(shelf, &tool_context(ThreadState::default(), 0), name, args).await
}

async fn run(shelf: &Arc<Shelf>, ctx: &ToolContext, name: &str, args: Value) -> Result<ToolOutput, String> {
    let tools = continuity(shelf).tools();
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    tool.call(ctx, args.as_object().cloned().unwrap()).await.map_err(|error| match error {
        ToolError::Respond(text) => text,
        other => panic!("{other}"),
    })
}

fn shelf() -> Arc<Shelf> {
    let record = |role, text: &str| ArchiveRecord { role, text: text.into() };
    let records = vec![
        record(ArchiveRole::User, "find the key"),
        record(ArchiveRole::Tool, &format!("the key{}", "界".repeat(8993))),
    ];
    Arc::new(Shelf { records: Mutex::new(records), ..Shelf::default() })
}

#[tokio::test]
async fn history_is_found_and_read_page_by_page() {
    let shelf = shelf();
    let found = call(&shelf, "history_search", json!({"query": " key "})).await.unwrap().content.text().into_owned();
    assert!(
        found.starts_with(&format!("{} (user): find the key\n\n{} (tool): the key界", source(0), source(1))),
        "{found}"
    );
    let tools = call(&shelf, "history_search", json!({"query": "key", "role": "tool"})).await.unwrap();
    assert!(!tools.content.text().contains("(user)"));
    let none = call(&shelf, "history_search", json!({"query": "absent"})).await.unwrap();
    assert!(none.content.text().starts_with("Nothing archived has \"absent\""));
    assert!(call(&shelf, "history_search", json!({"query": " "})).await.unwrap_err().contains("blank"));
    assert!(
        call(&shelf, "history_search", json!({"query": "x", "role": "system"})).await.unwrap_err().contains("role")
    );

    let page = call(&shelf, "history_read", json!({"source_id": source(1), "offset": 4000}))
        .await
        .unwrap()
        .content
        .text()
        .into_owned();
    assert!(
        page.starts_with(&format!(
            "{} (tool), characters 4000 to 8000 of 9000; go on with offset=8000\n\n界",
            source(1)
        )),
        "{page}"
    );
    let last = call(&shelf, "history_read", json!({"source_id": source(1), "offset": 8000})).await.unwrap();
    assert!(last.content.text().contains("characters 8000 to 9000 of 9000\n\n"));
    for (id, offset, why) in [
        (source(9), 0, "no archived message"),
        ("r1' OR 1".into(), 0, "no archived message"),
        (source(1), 9000, "behind the end"),
    ] {
        let error = call(&shelf, "history_read", json!({"source_id": id, "offset": offset})).await.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_note_is_kept_replaced_and_deleted_within_its_limits() {
    let shelf = shelf();
    let mut state = ThreadState::default();
    let done = call(&shelf, "task_note", json!({"key": "k-1", "content": "界".repeat(750), "source_ids": [source(0)]}))
        .await
        .unwrap();
    state.apply(&done.update).unwrap();
    let note = &state.task_notes.as_ref().unwrap()["k-1"];
    assert_eq!(
        (note.content.chars().count(), note.source_ids.as_slice(), note.authority.as_str()),
        (750, &[source(0)][..], "model_report")
    );
    let deleted =
        run(&shelf, &tool_context(state.clone(), 0), "task_note", json!({"key": "k-1", "content": " "})).await.unwrap();
    state.apply(&deleted.update).unwrap();
    assert!(state.task_notes.as_ref().unwrap().is_empty());
    let absent = call(&shelf, "task_note", json!({"key": "k-1", "content": ""})).await.unwrap();
    assert!(absent.update.is_empty() && absent.content.text().contains("no note"));
    let five: Vec<String> = vec![source(0); 5];
    for (args, why) in [
        (json!({"key": "a b", "content": "x"}), "`key`"),
        (json!({"key": "", "content": "x"}), "`key`"),
        (json!({"key": "k".repeat(41), "content": "x"}), "`key`"),
        (json!({"key": "k", "content": "x".repeat(751)}), "751 characters"),
        (json!({"key": "k", "content": "x", "source_ids": five}), "5 entries"),
        (json!({"key": "k", "content": "x", "source_ids": [source(9)]}), "no archived message"),
        (json!({"key": "k", "content": "x", "source_ids": ["r1"]}), "no archived message"),
    ] {
        let error = call(&shelf, "task_note", args.clone()).await.unwrap_err();
        assert!(error.contains(why) && error.contains("Nothing was noted"), "{args}: {error}");
    }
}

/// Calls of one batch run side by side; those that come first in the message get the room.
#[tokio::test]
async fn room_for_notes_is_given_in_call_order() {
    let shelf = shelf();
    let note = |key: &str, content: &str| json!({"key": key, "content": content});
    let batch = [
        note("n6", "x"),
        note("n7", "x"),
        note("n8", "x"),
        note("n0", ""),
        note("n9", "x"),
        note("n1", "again"),
        note("bad key", "x"),
    ];
    let mut state = ThreadState::default();
    let notes = (0..6).map(|n| (format!("n{n}"), json!({"content": "x"})));
    state.task_notes = serde_json::from_value(Value::Object(notes.collect())).unwrap();
    let calls = batch
        .iter()
        .enumerate()
        .map(|(n, args)| ToolCall::new(n.to_string(), "task_note", args.as_object().cloned().unwrap()));
    state.apply(&StateUpdate::messages([Message::ai_calls("", calls.collect())])).unwrap();
    let mut outcome = Vec::new();
    for (at, args) in batch.iter().enumerate() {
        outcome.push(run(&shelf, &tool_context(state.clone(), at), "task_note", args.clone()).await);
    }
    let kept: Vec<bool> = outcome.iter().map(Result::is_ok).collect();
    assert_eq!(kept, [true, true, false, true, true, true, false]);
    let updates: Vec<StateUpdate> = outcome.into_iter().flatten().map(|output| output.update).collect();
    state.apply_concurrent(&updates).unwrap();
    let keys: Vec<&str> = state.task_notes.as_ref().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 8);
    assert!(keys.contains(&"n9") && !keys.contains(&"n8") && !keys.contains(&"n0"), "{keys:?}");
}
