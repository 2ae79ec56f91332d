//! The server and the embedded client give the same frames and values: one suite drives both.
//!
//! Each part of the suite is a conversation with an installation of its own. What it heard is written down with ids and times
//! replaced by their order of appearance, and has to be the same text on both sides.

mod driver;
mod embedded;
mod http;
mod normal;

use deerflow_testkit::{Gate, Turn, call};
use driver::Driver;
use embedded::Embedded;
use http::Http;
use normal::Transcript;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Drives both sides through a part of the suite, compares what was heard, and gives it back.
macro_rules! alike {
    ($part:ident) => {{
        let (http, embedded) = (Http::start().await, Embedded::start().await);
        let over_http = $part(&http).await;
        let in_process = $part(&embedded).await;
        assert_eq!(over_http.text(&http.home()), in_process.text(&embedded.home()));
        over_http
    }};
}

fn say(text: &str) -> Value {
    json!({"assistant_id": "lead_agent", "input": {"messages": [{"role": "user", "content": text}]}, "if_not_exists": "create"})
}

async fn stream_modes(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    let modes =
        ["values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"];
    for mode in modes {
        driver
            .model()
            .push(Turn::text_and_calls("Let me see.", [call("ls", json!({"path": "/mnt/user-data"})).id("c1")]));
        driver.model().push(Turn::text("There are three folders."));
        let mut body = say("What is there?");
        body["stream_mode"] = json!([mode]);
        heard.note(mode, driver.stream(&format!("of-{mode}"), body).await);
    }
    heard
}

#[tokio::test]
async fn streams_are_the_same_in_every_mode() {
    let heard = alike!(stream_modes);
    for (mode, event) in
        [("values", "values"), ("messages-tuple", "messages"), ("debug", "debug"), ("events", "events")]
    {
        let frames = heard.of(mode)["ok"].as_array().unwrap().clone();
        assert_eq!((&frames[0]["event"], &frames.last().unwrap()["event"]), (&json!("metadata"), &json!("end")));
        assert!(frames.iter().filter(|frame| frame["event"] == event).count() > 1, "{mode}: {frames:?}");
    }
    let values = heard.of("values")["ok"].as_array().unwrap().clone();
    let last = values.iter().rfind(|frame| frame["event"] == "values").unwrap();
    assert_eq!(last["data"]["messages"].as_array().unwrap().last().unwrap()["content"], "There are three folders.");
}

async fn threads(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    heard.note("create", driver.create_thread("one", json!({"colour": "red"})).await);
    heard.note("again", driver.create_thread("one", json!({"colour": "blue"})).await);
    heard.note("create two", driver.create_thread("two", json!({})).await);
    heard.note("empty state", driver.state("one").await);
    driver.model().push(Turn::text("Good day."));
    heard.note("wait", driver.wait("one", say("Hello")).await);
    driver.model().push(Turn::text("Still good."));
    heard.note("second turn", driver.wait("one", say("And now?")).await);
    heard.note("search", driver.search(json!({"colour": "red"})).await);
    heard.note("search all", driver.search(json!({})).await);
    heard.note("bad search", driver.search(json!({"colour": ["red"]})).await);
    heard.note("get", driver.thread("one").await);
    heard.note("state", driver.state("one").await);
    heard.note("runs", driver.runs("one").await);
    heard.note("update", driver.update_state("one", json!({"title": "Weather"}), Some("model")).await);
    heard.note("bad update", driver.update_state("one", json!({"colour": 1}), None).await);
    heard.note("bad node", driver.update_state("one", json!({"title": "x"}), Some("nowhere")).await);
    heard.note("history", driver.history("one", 100).await);
    heard.note("newest", driver.history("one", 1).await);
    heard.note("delete", driver.delete_thread("one").await);
    heard.note("gone", driver.thread("one").await);
    heard
}

#[tokio::test]
async fn threads_states_and_histories_are_the_same() {
    let heard = alike!(threads);
    assert_eq!(heard.of("again")["ok"]["metadata"], json!({"colour": "red"}));
    assert_eq!(heard.of("search")["ok"].as_array().unwrap().len(), 1);
    assert_eq!(heard.of("bad search")["error"]["status"], 422);
    assert_eq!(
        heard.of("get")["ok"]["values"]["messages"].as_array().unwrap().last().unwrap()["content"],
        "Still good."
    );
    assert_eq!(heard.of("runs")["ok"].as_array().unwrap().len(), 2);
    assert_eq!(heard.of("update")["ok"]["values"]["title"], "Weather");
    assert_eq!(heard.of("bad update")["error"]["body"]["detail"], "Unknown thread-state field(s): colour");
    assert!(heard.of("history")["ok"].as_array().unwrap().len() > 4);
    assert_eq!(heard.of("gone")["error"], json!({"status": 404, "body": {"detail": "Thread one not found"}}));
}

async fn files(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    heard.note("none", driver.uploads("box").await);
    heard.note("upload", driver.upload("box", "data.txt", b"name,sum\nann,3\n").await);
    heard.note("no file", driver.upload("box", "..", b"x").await);
    heard.note("list", driver.uploads("box").await);
    heard.note("artifact", driver.artifact("box", "mnt/user-data/uploads/data.txt").await);
    heard.note("folder", driver.artifact("box", "mnt/user-data/uploads").await);
    heard.note("elsewhere", driver.artifact("box", "etc/passwd").await);
    heard.note("delete", driver.delete_upload("box", "data.txt").await);
    heard.note("delete again", driver.delete_upload("box", "data.txt").await);
    heard.note("no name", driver.delete_upload("box", ".hidden/../x").await);
    heard.note("list after", driver.uploads("box").await);
    heard
}

#[tokio::test]
async fn files_are_the_same() {
    let heard = alike!(files);
    assert_eq!(heard.of("upload")["ok"]["files"][0]["virtual_path"], "/mnt/user-data/uploads/data.txt");
    assert_eq!(heard.of("list")["ok"]["count"], 1);
    let file = json!({"bytes": "name,sum\nann,3\n", "media_type": "text/plain; charset=utf-8"});
    assert_eq!(heard.of("artifact")["ok"], file);
    assert_eq!(heard.of("elsewhere")["error"]["status"], 400);
    assert_eq!(heard.of("delete")["ok"], json!({"success": true, "message": "Deleted data.txt"}));
    assert_eq!(heard.of("delete again")["error"]["status"], 404);
    assert_eq!(heard.of("no name")["error"]["status"], 400);
    assert_eq!(heard.of("list after")["ok"]["count"], 0);
}

async fn goals_and_models(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    heard.note("none", driver.goal("aim").await);
    heard.note("set", driver.set_goal("aim", "Every figure has a source", 3).await);
    heard.note("empty", driver.set_goal("aim", "  ", 3).await);
    heard.note("get", driver.goal("aim").await);
    heard.note("clear", driver.clear_goal("aim").await);
    heard.note("models", driver.models().await);
    heard.note("model", driver.show_model("scripted").await);
    heard.note("no model", driver.show_model("alien").await);
    heard
}

#[tokio::test]
async fn goals_and_models_are_the_same() {
    let heard = alike!(goals_and_models);
    assert_eq!(heard.of("get")["ok"]["goal"]["max_continuations"], 3);
    assert_eq!(heard.of("empty")["error"]["status"], 422);
    assert_eq!(heard.of("clear")["ok"], json!({"goal": null}));
    assert_eq!(heard.of("models")["ok"]["models"][0]["name"], "scripted");
    assert_eq!(heard.of("no model")["error"]["body"]["detail"], "Model 'alien' not found");
}

async fn stopping(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    let gate = Gate::new();
    driver.model().push(Turn::hang(&gate));
    let run = driver.start("busy", say("Take your time")).await;
    let id = run["ok"]["run_id"].as_str().unwrap().to_owned();
    gate.reached().await;
    heard.note("second", driver.start("busy", say("Me too")).await);
    heard.note("edit", driver.update_state("busy", json!({"title": "x"}), None).await);
    heard.note("delete", driver.delete_thread("busy").await);
    heard.note("cancel", driver.cancel("busy", &id).await);
    heard.note("again", driver.cancel("busy", &id).await);
    let joined = driver.join("busy", &id).await;
    heard.note("ends", json!(joined["ok"].as_array().unwrap().last().unwrap()["event"]));
    let run = driver.run("busy", &id).await;
    heard.note("run", json!([run["ok"]["status"], run["ok"]["multitask_strategy"]]));
    heard.note("unknown run", driver.run("busy", "11111111-1111-4111-8111-111111111111").await);
    heard
}

#[tokio::test]
async fn stopping_a_run_is_the_same() {
    let heard = alike!(stopping);
    assert_eq!(heard.of("second")["error"]["status"], 409);
    assert_eq!(heard.of("edit")["error"]["status"], 409);
    assert_eq!(heard.of("delete")["error"]["status"], 409);
    assert_eq!(heard.of("cancel"), json!({"ok": null}));
    assert_eq!(heard.of("ends"), json!("end"));
    assert_eq!(heard.of("run"), json!(["interrupted", "reject"]));
    assert_eq!(heard.of("unknown run")["error"]["status"], 404);
}

async fn pausing(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    driver.model().push(Turn::calls([call("ls", json!({"path": "/mnt/user-data"})).id("c1")]));
    let mut body = say("What is there?");
    body["interrupt_before"] = json!(["tools"]);
    heard.note("paused", driver.stream("pause", body).await);
    heard.note("waits", driver.state("pause").await);
    heard.note("thread", driver.thread("pause").await);
    driver.model().push(Turn::text("Three folders."));
    heard.note("on", driver.wait("pause", json!({"assistant_id": "lead_agent", "input": null})).await);
    heard.note("no question", driver.wait("pause", json!({"command": {"resume": "yes"}})).await);
    heard
}

#[tokio::test]
async fn pausing_and_going_on_are_the_same() {
    let heard = alike!(pausing);
    assert_eq!(heard.of("waits")["ok"]["next"], json!(["tools"]));
    assert_eq!(heard.of("thread")["ok"]["status"], "interrupted");
    assert_eq!(heard.of("on")["ok"]["messages"].as_array().unwrap().last().unwrap()["content"], "Three folders.");
    assert_eq!(heard.of("no question")["error"]["status"], 409);
}

async fn refusals(driver: &impl Driver) -> Transcript {
    let mut heard = Transcript::default();
    let mut only_old = say("x");
    only_old["if_not_exists"] = json!("reject");
    heard.note("no thread", driver.stream("nobody", only_old).await);
    heard.note("state", driver.state("nobody").await);
    heard.note("history", driver.history("nobody", 10).await);
    heard.note("delete", driver.delete_thread("nobody").await);
    for (name, key, value) in [
        ("model", "context", json!({"model_name": "alien"})),
        ("effort", "context", json!({"reasoning_effort": "heroic"})),
        ("input", "input", json!({"messages": [{"role": "wizard", "content": "x"}]})),
        ("channel", "input", json!({"alien": 1})),
        ("checkpoint", "checkpoint_id", json!("no-such-checkpoint")),
        ("stop", "interrupt_before", json!(["nowhere"])),
        ("delay", "after_seconds", json!(-1)),
    ] {
        let mut body = say("x");
        body[key] = value;
        heard.note(name, driver.stream("errors", body).await);
    }
    heard
}

#[tokio::test]
async fn refusals_are_the_same() {
    let heard = alike!(refusals);
    let status = |what: &str| heard.of(what)["error"]["status"].as_u64();
    assert_eq!(status("no thread"), Some(404));
    assert_eq!(heard.of("history"), json!({"ok": []}));
    assert_eq!(
        (status("model"), status("effort"), status("input"), status("channel")),
        (Some(400), Some(422), Some(400), Some(422))
    );
    assert_eq!((status("checkpoint"), status("stop"), status("delay")), (Some(404), Some(422), Some(422)));
}

/// What only a program in the same process can do wrong, or would miss.
#[tokio::test]
async fn a_dropped_stream_leaves_its_run_to_itself_and_users_do_not_meet() {
    let embedded = Embedded::start().await;
    let gate = Gate::new();
    embedded.model().push(Turn::text("It went on.").hold(&gate));
    let thread = "left".parse().unwrap();
    let stream = embedded.client.stream(&thread, "Go", &[]).await.unwrap();
    let run = stream.run_id().clone();
    gate.reached().await;
    drop(stream);
    gate.open();
    let values = embedded.client.wait_for(&thread, &run).await.unwrap();
    assert_eq!(values["messages"].as_array().unwrap().last().unwrap()["content"], "It went on.");

    embedded.model().push(Turn::text("Two."));
    assert_eq!(embedded.client.chat_on(&thread, "And?").await.unwrap(), "Two.");
    let asked = embedded.model().agent_requests().last().unwrap().body.to_string();
    assert!(asked.contains("It went on."), "the second turn knows the first: {asked}");

    let other = embedded.client.for_user("somebody".parse().unwrap(), deerflow_core::Principal::default());
    assert_eq!(other.thread(&thread).await.unwrap_err().to_string(), "Thread left not found");
    assert_eq!(other.threads(Default::default()).await.unwrap().len(), 0);
}
