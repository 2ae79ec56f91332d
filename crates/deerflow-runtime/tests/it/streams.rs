//! A run from the model's bytes to frames: live, cut, late, and from the database alone.

use deerflow::assembly;
use deerflow_config::Loader;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{EventRepo as _, StepLog as _};
use deerflow_core::{Lineage, Message, RunId, ThreadId, UserId};
use deerflow_harness::LeadOptions;
use deerflow_runtime::bridge::Bridge;
use deerflow_runtime::views::values::state_json;
use deerflow_runtime::{EventId, Frame, RunEvent, RunManager, RunRequest, RunView, StreamMode, Views, WorkerLock};
use deerflow_store::SqliteStore;
use deerflow_testkit::{ScriptedModel, TempHome, Turn, call, temp_home};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Bench {
    model: ScriptedModel,
    store: Arc<SqliteStore>,
    runs: RunManager<SqliteStore>,
    bridge: Bridge,
    _home: TempHome,
}

/// A run that was told, and who it was.
struct Ran {
    run_id: RunId,
    thread_id: ThreadId,
}

impl Bench {
    async fn start() -> Self {
        let model = ScriptedModel::start().await;
        let home = temp_home();
        let yaml = format!(
            "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: {}\n    api_key: test-key-123456\n\
             sandbox:\n  use: host\n  allow_host_bash: true\nllm_call:\n  retry_base_delay_ms: 10\n  retry_cap_delay_ms: 20\n",
            model.base_url()
        );
        let file = home.write("config.yaml", yaml);
        let env = [("DEER_FLOW_HOME".to_owned(), home.path().display().to_string())];
        let loader = Loader::new(assembly::sections()).env(env).cwd(home.path()).file(file);
        let config = Arc::new(loader.load().unwrap());
        let store = assembly::open_store(&config).await.unwrap();
        let harness = assembly::harness(config, &store).await.unwrap();
        let runs = RunManager::new(store.clone(), harness, WorkerLock::acquire(home.path()).unwrap());
        Self { model, store, runs, bridge: Bridge::default(), _home: home }
    }

    /// Runs to the end, telling the bridge as it goes.
    async fn run(&self, thread: &str, text: &str) -> Ran {
        let thread_id = ThreadId::parse(thread).unwrap();
        let request = RunRequest {
            user_id: UserId::local(),
            thread_id: thread_id.clone(),
            message: Message::human(text),
            goal: None,
            options: LeadOptions::default(),
        };
        let mut handle = self.runs.start(request).await.unwrap().handle;
        let run_id = handle.run_id.clone();
        let stream = self.bridge.open(&run_id, &thread_id);
        stream.publish(RunEvent::Metadata { run_id: run_id.clone(), thread_id: thread_id.clone() });
        while let Some(event) = handle.events.recv().await {
            stream.publish(event);
        }
        handle.finished().await.unwrap();
        stream.close();
        Ran { run_id, thread_id }
    }

    async fn read(&self, bridge: &Bridge, ran: &Ran, modes: &[StreamMode], after: Option<EventId>) -> Vec<Frame> {
        let (run_id, thread_id) = (ran.run_id.clone(), ran.thread_id.clone());
        let mut reader = bridge.subscribe(self.store.clone(), run_id.clone(), thread_id.clone(), after);
        let mut views = Views::new(modes.iter().copied(), RunView::new(run_id, thread_id));
        let mut frames = Vec::new();
        while let Some(item) = reader.next().await {
            frames.extend(views.frames(&item));
        }
        frames
    }
}

const MODES: [StreamMode; 4] = [StreamMode::MessagesTuple, StreamMode::Values, StreamMode::Updates, StreamMode::Custom];

fn parsed(frame: &Frame) -> Value {
    serde_json::from_str(&frame.data).unwrap()
}

fn ends(frames: &[Frame]) -> bool {
    frames.iter().filter(|frame| frame.event == "end").count() == 1 && frames.last().is_some_and(|f| f.event == "end")
}

/// Texts of messages as a client adds their pieces up, by id.
fn texts(frames: &[Frame]) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::<String, String>::new();
    for frame in frames.iter().filter(|frame| frame.event == "messages") {
        let message = &parsed(frame)[0];
        let text = texts.entry(message["id"].as_str().unwrap().to_owned()).or_default();
        text.push_str(message["content"].as_str().unwrap());
    }
    texts
}

fn last_values(frames: &[Frame]) -> Value {
    parsed(frames.iter().rev().find(|frame| frame.event == "values").unwrap())
}

/// Messages of the journal's rows of a run.
async fn journalled(bench: &Bench, ran: &Ran) -> Vec<Value> {
    let rows = bench.store.journal(&ran.thread_id, Some(&ran.run_id), 0, 1000).await.unwrap();
    let messages = rows.into_iter().filter(|row| row.row.category == "message").map(|row| {
        let content = row.row.content;
        content.get("message").cloned().unwrap_or(content)
    });
    messages.collect()
}

#[tokio::test]
async fn chunk_state_and_journal_row_agree_and_every_reader_sees_one_whole_run() {
    let bench = Bench::start().await;
    let file = json!({"description": "note", "path": "/mnt/user-data/outputs/a.md", "content": "hi"});
    bench.model.push(Turn::text_and_calls("I write it down.", [call("write_file", file)]));
    bench.model.push(Turn::text("It is written down now.").usage(20, 6));
    let ran = bench.run("t", "note this").await;
    let head = bench.store.load(&Lineage::root(ran.thread_id.clone()), None).await.unwrap().unwrap();
    let live = bench.read(&bench.bridge, &ran, &MODES, None).await;
    let stored = bench.read(&Bridge::default(), &ran, &MODES, None).await;

    let rows = journalled(&bench, &ran).await;
    for (what, frames) in [("live", &live), ("from the database", &stored)] {
        assert_eq!(frames[0].event, "metadata", "{what}");
        assert!(ends(frames), "{what}");
        assert_eq!(last_values(frames), state_json(&head.state), "{what}");
        for (id, text) in texts(frames) {
            let in_state = head.state.messages.iter().find(|message| message.id() == id).unwrap();
            assert_eq!(in_state.text(), text, "{what}: {id}");
            assert!(rows.iter().any(|row| row["id"] == *id), "{what}: {id}");
        }
    }
    let answers = |frames: &[Frame]| texts(frames).into_values().filter(|t| t.contains("written down now")).count();
    assert_eq!((answers(&live), answers(&stored)), (1, 1));
    let visible = head.state.messages.iter().filter(|m| !m.is_human() && !m.flag(kwargs::HIDE_FROM_UI)).count();
    assert_eq!(texts(&live).len(), visible.max(texts(&stored).len()));
    let nodes: Vec<_> = live
        .iter()
        .filter(|frame| frame.event == "updates")
        .map(|frame| parsed(frame).as_object().unwrap().keys().next().unwrap().clone())
        .collect();
    assert_eq!(nodes.iter().filter(|node| *node == "model").count(), 2, "{nodes:?}");
    assert_eq!(nodes.iter().filter(|node| *node == "tools").count(), 1, "{nodes:?}");
}

#[tokio::test]
async fn a_reader_cut_at_any_frame_sees_the_rest_and_nothing_twice() {
    let bench = Bench::start().await;
    let file = json!({"description": "note", "path": "/mnt/user-data/outputs/a.md", "content": "hi"});
    bench.model.push(Turn::text_and_calls("I write.", [call("write_file", file)]));
    bench.model.push(Turn::text("done and done"));
    let ran = bench.run("t", "note this").await;
    let all = StreamMode::ALL;
    let whole = bench.read(&bench.bridge, &ran, &all, None).await;
    for (at, frame) in whole.iter().enumerate().filter(|(_, frame)| frame.id.is_some()) {
        let rest = bench.read(&bench.bridge, &ran, &all, frame.id).await;
        assert_eq!(rest, whole[at + 1..], "cut after frame {at}");
        // The same after a restart: durable messages only, none of them again.
        let elsewhere = bench.read(&Bridge::default(), &ran, &all, frame.id).await;
        assert!(ends(&elsewhere), "cut after frame {at}");
        let rows = journalled(&bench, &ran).await.len();
        let replayed = elsewhere.iter().filter(|frame| frame.event == "updates").count();
        assert!(replayed <= rows, "cut after frame {at}: {replayed} of {rows}");
    }
}

/// A stream that broke in mid-answer and was made again: the orphan is taken back, and no replay shows it.
#[tokio::test]
async fn a_turn_that_is_made_again_is_taken_back_first() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("half an answer that never ends").cut());
    bench.model.push(Turn::text("the whole answer"));
    let ran = bench.run("t", "ask").await;
    let live = bench.read(&bench.bridge, &ran, &MODES, None).await;
    let at = live
        .iter()
        .position(|frame| frame.event == "custom" && parsed(frame)["type"] == "model_attempt_discarded")
        .unwrap();
    let void = parsed(&live[at])["message_id"].as_str().unwrap().to_owned();
    assert_eq!(live[at - 1].event, "values");
    assert!(texts(&live[..at]).contains_key(&void) && !texts(&live[at..]).contains_key(&void));
    assert!(!last_values(&live).to_string().contains("half an answer"));
    let stored = bench.read(&Bridge::default(), &ran, &MODES, None).await;
    assert!(stored.iter().all(|frame| !frame.data.contains("half an answer")));
    assert!(texts(&stored).values().any(|text| text == "the whole answer"));
}

/// Each run of a thread is told its own messages, and the state as it was at its end.
#[tokio::test]
async fn an_earlier_run_is_replayed_without_the_later_ones() {
    let bench = Bench::start().await;
    let mut runs = Vec::new();
    for n in ["first", "second"] {
        bench.model.push(Turn::text(format!("the {n} answer")));
        runs.push(bench.run("t", &format!("the {n} question")).await);
    }
    for bridge in [bench.bridge.clone(), Bridge::default()] {
        let first = bench.read(&bridge, &runs[0], &MODES, None).await;
        assert!(ends(&first) && !first.iter().any(|frame| frame.data.contains("second")));
        let second = bench.read(&bridge, &runs[1], &MODES, None).await;
        let told = texts(&second);
        assert!(told.values().any(|text| text == "the second answer"), "{told:?}");
        assert!(!told.values().any(|text| text.contains("first answer")), "{told:?}");
        // The id of another run means from the start.
        let lost = bench.read(&bridge, &runs[1], &MODES, first.iter().rev().find_map(|frame| frame.id)).await;
        assert_eq!(texts(&lost), told);
    }
}
