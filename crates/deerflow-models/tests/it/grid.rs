//! What every adapter has to do, as files: `fixtures/grid/ADAPTER/CASE.json`, written from the providers' public documents.
//!
//! A file holds a request and the body that has to be sent for it, and a reply and the turn (or error) that has to come of
//! it; where the turn goes back, also what is sent then. Each stream comes whole and in pieces, and is cut after each of
//! its events.

use crate::fake::{Fake, Outcome, Reply, run};
use deerflow_core::{ChatModel, ChatRequest, Message, ToolChoice, ToolSpec};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cases that every adapter has.
const CASES: [&str; 8] =
    ["plain", "tool_calls", "parallel_calls", "images", "reasoning", "error_auth", "error_limit", "error_in_stream"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The documents that it is written from.
    source: Vec<String>,
    #[serde(default)]
    profile: Map<String, Value>,
    #[serde(default)]
    request: Asked,
    /// Path and query, below the host.
    path: Option<String>,
    /// The body, exactly.
    sends: Option<Value>,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A stream.
    events: Option<Vec<Value>>,
    /// With how many events of it the turn is complete; all, unless said.
    complete_with: Option<usize>,
    /// A reply that comes whole.
    body: Option<Value>,
    turn: Option<Value>,
    fails: Option<Fails>,
    /// Messages after the turn, and parts of the request that is made then.
    #[serde(default)]
    then: Vec<Message>,
    #[serde(default)]
    then_sends: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    system: Option<String>,
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    tool_choice: ToolChoice,
    thinking: bool,
    reasoning_effort: Option<String>,
    max_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    kind: String,
    #[serde(default)]
    says: String,
    retry_after: Option<f64>,
}

fn ok() -> u16 {
    200
}

impl Case {
    fn asked(&self) -> ChatRequest {
        let asked = &self.request;
        let mut messages: Vec<Arc<Message>> = asked.messages.iter().cloned().map(Arc::new).collect();
        if messages.is_empty() {
            messages.push(Arc::new(Message::human("hello")));
        }
        ChatRequest {
            system: asked.system.as_deref().map(Into::into),
            messages,
            tools: asked.tools.iter().cloned().map(Arc::new).collect(),
            tool_choice: asked.tool_choice.clone(),
            thinking: asked.thinking,
            reasoning_effort: asked.reasoning_effort.clone(),
            max_tokens: asked.max_tokens,
        }
    }

    fn reply(&self, adapter: &str, events: usize) -> Reply {
        let named = matches!(adapter, "anthropic" | "codex" | "responses");
        let mut reply = match (&self.events, &self.body) {
            (Some(all), None) => Reply::new(self.status, "text/event-stream", &stream(&all[..events], named)),
            (None, Some(body)) => Reply::json(self.status, body),
            _ => panic!("a reply is `events` or `body`"),
        };
        for (name, value) in &self.headers {
            reply = reply.header(name.clone().leak(), value);
        }
        reply
    }
}

fn stream(events: &[Value], named: bool) -> String {
    let line = |event: &Value| match event {
        Value::String(raw) => format!("data: {raw}\n\n"),
        event if named => format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()),
        event => format!("data: {event}\n\n"),
    };
    events.iter().map(line).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/grid")
}

fn cases(adapter: &str) -> BTreeMap<String, Case> {
    let files = std::fs::read_dir(folder().join(adapter)).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let case: Case = serde_json::from_slice(&std::fs::read(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!case.source.is_empty(), "{}: written from which document?", path.display());
            (name, case)
        })
        .collect()
}

fn model(adapter: &str, fake: &Fake, login: &Path, case: &Case) -> Arc<dyn ChatModel> {
    let mut profile = json!({"name": "main", "use": adapter, "model": "fake", "base_url": fake.base});
    match adapter {
        "responses" => {
            profile["use"] = json!("openai");
            profile["use_responses_api"] = json!(true);
        }
        "openai" => profile["dialect"] = json!("openai"),
        _ => {}
    }
    if adapter != "codex" {
        profile["api_key"] = json!("sk-secret-1");
    }
    for (key, value) in &case.profile {
        profile[key] = value.clone();
    }
    let env = |name: &str| (name == "CODEX_HOME").then(|| login.display().to_string());
    deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &env).unwrap()
}

/// What of a turn matters to the rest of the house.
fn told(outcome: &Outcome) -> Value {
    let message = outcome.result.as_ref().unwrap();
    let part = message.as_ai().unwrap();
    let mut told = Map::new();
    told.insert("content".to_owned(), serde_json::to_value(&message.content).unwrap());
    if let Some(reasoning) = message.additional_kwargs.get("reasoning_content") {
        told.insert("reasoning".to_owned(), reasoning.clone());
    }
    let call = |call: &deerflow_core::ToolCall| json!({"id": call.id, "name": call.name, "args": call.args});
    if !part.tool_calls.is_empty() {
        told.insert("calls".to_owned(), part.tool_calls.iter().map(call).collect());
    }
    if !part.invalid_tool_calls.is_empty() {
        let broken = |call: &deerflow_core::InvalidToolCall| json!({"name": call.name, "args": call.args});
        told.insert("broken_calls".to_owned(), part.invalid_tool_calls.iter().map(broken).collect());
    }
    told.insert("finish_reason".to_owned(), json!(message.finish_reason()));
    if let Some(usage) = &part.usage_metadata {
        told.insert("usage".to_owned(), serde_json::to_value(usage).unwrap());
    }
    Value::Object(told)
}

#[track_caller]
fn check(place: &str, case: &Case, outcome: &Outcome) {
    match (&case.turn, &case.fails) {
        (Some(turn), None) => {
            if let Err(error) = &outcome.result {
                panic!("{place}: {error}");
            }
            assert_eq!(&told(outcome), turn, "{place}");
            // What was streamed is what was said.
            let text: String = outcome.deltas.iter().map(|delta| delta.text.as_str()).collect();
            assert_eq!(text, outcome.result.as_ref().unwrap().text(), "{place}: the text of the pieces");
            let reasoning: String = outcome.deltas.iter().map(|delta| delta.reasoning.as_str()).collect();
            assert_eq!(reasoning, turn.get("reasoning").and_then(Value::as_str).unwrap_or_default(), "{place}");
        }
        (None, Some(fails)) => {
            let error = match &outcome.result {
                Err(error) => error,
                Ok(message) => panic!("{place}: no error but {message:?}"),
            };
            assert_eq!(format!("{:?}", error.kind), fails.kind, "{place}: {error}");
            assert!(error.to_string().contains(&fails.says), "{place}: {error}");
            assert!(!error.to_string().contains("sk-secret-1"), "{place}: {error}");
            assert_eq!(error.retry_after.map(|wait| wait.as_secs_f64()), fails.retry_after, "{place}");
        }
        _ => panic!("{place}: a case has a `turn`, or it `fails`"),
    }
}

async fn run_case(adapter: &str, name: &str, case: &Case, login: &Path) {
    let events = case.events.as_ref().map_or(0, Vec::len);
    let whole = case.reply(adapter, events);
    // One case byte by byte; cutting lines and events does for the others.
    let bytewise = case.reply(adapter, events).cut(if name == "plain" { 1 } else { 13 });
    let then = case.reply(adapter, events);
    let fake = Fake::start([whole, bytewise, then]).await;
    let model = model(adapter, &fake, login, case);
    let outcome = run(&*model, case.asked()).await;
    check(&format!("{adapter}/{name}"), case, &outcome);
    if let Some(sends) = &case.sends {
        assert_eq!(&fake.bodies()[0], sends, "{adapter}/{name}: what is sent");
    }
    if let Some(path) = &case.path {
        assert_eq!(&fake.path_and_header("host").0, path, "{adapter}/{name}: where it is sent");
    }
    check(&format!("{adapter}/{name}, in pieces"), case, &run(&*model, case.asked()).await);
    if case.then_sends.is_empty() {
        return;
    }
    let mut next = case.asked();
    next.messages.push(Arc::new(outcome.message()));
    next.messages.extend(case.then.iter().cloned().map(Arc::new));
    run(&*model, next).await.message();
    for (pointer, value) in &case.then_sends {
        let bodies = fake.bodies();
        let sent = bodies[2].pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(sent, value, "{adapter}/{name}: {pointer} of the next request");
    }
}

/// A stream that ends before the turn does is an interruption, wherever it ends, and what came before stays told.
async fn cut_everywhere(adapter: &str, name: &str, case: &Case, login: &Path) {
    let Some(events) = case.events.as_ref().filter(|_| case.turn.is_some()) else { return };
    let complete = case.complete_with.unwrap_or(events.len());
    assert!((1..=events.len()).contains(&complete), "{adapter}/{name}: `complete_with` is a number of its events");
    let fake = Fake::start((0..=complete).map(|length| case.reply(adapter, length))).await;
    let model = model(adapter, &fake, login, case);
    let whole = case.turn.as_ref().and_then(|turn| turn["content"].as_str()).map(str::to_owned);
    for length in 0..complete {
        let outcome = run(&*model, case.asked()).await;
        let text = outcome.text();
        assert!(
            whole.as_ref().is_none_or(|whole| whole.starts_with(&text)),
            "{adapter}/{name} after {length}: {text:?}"
        );
        let error = match outcome.result {
            Err(error) => error,
            Ok(message) => panic!("{adapter}/{name} after {length} events is no turn, and became {message:?}"),
        };
        assert_eq!(format!("{:?}", error.kind), "StreamInterrupted", "{adapter}/{name} after {length}: {error}");
    }
    run(&*model, case.asked()).await.message();
}

async fn speaks(adapter: &str) {
    let login = tempfile::tempdir().unwrap();
    let tokens = json!({"tokens": {"access_token": "sk-secret-1", "account_id": "acc-1"}});
    std::fs::write(login.path().join("auth.json"), tokens.to_string()).unwrap();
    let cases = cases(adapter);
    for case in CASES {
        assert!(cases.contains_key(case), "{adapter} has no fixture for {case}");
    }
    for (name, case) in &cases {
        run_case(adapter, name, case, login.path()).await;
        cut_everywhere(adapter, name, case, login.path()).await;
    }
}

macro_rules! adapters {
    ($($adapter:ident)*) => {
        $(
            #[tokio::test]
            async fn $adapter() {
                speaks(stringify!($adapter)).await;
            }
        )*

        #[test]
        fn no_folder_of_fixtures_is_left_unread() {
            let mut found: Vec<String> =
                std::fs::read_dir(folder()).unwrap().map(|d| d.unwrap().file_name().into_string().unwrap()).collect();
            found.sort();
            assert_eq!(found, [$(stringify!($adapter)),*]);
        }
    };
}

adapters!(anthropic codex gemini openai responses);
