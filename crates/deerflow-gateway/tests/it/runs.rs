//! Runs: bodies, headers, frames. What the official clients see of them is in `tests/clients`.

use crate::support::{Gateway, answer};
use deerflow_testkit::Turn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn body(text: &str) -> Value {
    json!({"assistant_id": "lead_agent", "input": {"messages": [{"role": "user", "content": text}]}})
}

async fn thread(gateway: &Gateway) -> String {
    gateway.post("/api/threads", &json!({})).await.1["thread_id"].as_str().unwrap().to_owned()
}

/// Frames of a stream as `(event, data, id)`.
fn frames(text: &str) -> Vec<(String, Value, Option<String>)> {
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start_matches(": ").to_owned())
    };
    let blocks = text.split("\n\n").filter(|block| block.starts_with("event"));
    blocks
        .map(|block| {
            let data = field(block, "data").unwrap();
            (field(block, "event").unwrap(), serde_json::from_str(&data).unwrap(), field(block, "id"))
        })
        .collect()
}

#[tokio::test]
async fn a_stream_has_its_headers_and_its_order() {
    let gateway = Gateway::start().await;
    gateway.model.push(Turn::text("hello there"));
    let thread = thread(&gateway).await;
    let mut body = body("hi");
    body["stream_mode"] = json!(["values", "updates", "messages-tuple"]);
    let url = format!("{}/api/langgraph/threads/{thread}/runs/stream", gateway.url);
    let response = gateway.client.post(url).json(&body).send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!(header("cache-control"), "no-cache");
    assert_eq!(header("x-accel-buffering"), "no");
    let (place, location) = (header("content-location"), header("location"));
    let frames = frames(&response.text().await.unwrap());
    let run = frames[0].1["run_id"].as_str().unwrap();
    assert_eq!(place, format!("/api/threads/{thread}/runs/{run}"));
    assert_eq!(location, format!("/threads/{thread}/runs/{run}/stream"));
    assert_eq!((frames[0].0.as_str(), &frames[0].1["thread_id"]), ("metadata", &json!(thread)));
    assert_eq!(frames.last().map(|frame| (frame.0.as_str(), &frame.1)), Some(("end", &Value::Null)));
    let streamed: String = frames
        .iter()
        .filter(|frame| frame.0 == "messages" && frame.1[0]["type"] == "AIMessageChunk")
        .filter_map(|frame| frame.1[0]["content"].as_str())
        .collect();
    assert_eq!(streamed, "hello there");
    let values = frames.iter().rfind(|frame| frame.0 == "values").unwrap();
    assert_eq!(values.1["messages"].as_array().unwrap().last().unwrap()["content"], "hello there");
    let ids: Vec<_> = frames.iter().filter_map(|frame| frame.2.clone()).collect();
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
}

#[tokio::test]
async fn options_that_do_not_fit_are_named_and_nothing_happens() {
    let gateway = Gateway::start().await;
    let thread = thread(&gateway).await;
    let path = format!("/api/threads/{thread}/runs");
    let cases = [
        (json!({"streem_mode": "values"}), json!(["body", "streem_mode"])),
        (json!({"stream_mode": "sideways"}), json!(["body", "stream_mode"])),
        (json!({"multitask_strategy": "panic"}), json!(["body", "multitask_strategy"])),
        (json!({"assistant_id": "../x"}), json!(["body", "assistant_id"])),
        (json!({"config": {"context": []}}), json!(["body", "config", "context"])),
        (json!({"metadata": {"auth_token": "x"}}), json!(["body", "metadata", "auth_token"])),
        (json!({"after_seconds": -1}), json!(["body", "after_seconds"])),
        (json!({"command": {"goto": ["a", "b"]}}), json!(["body", "command", "goto"])),
        (json!({"interrupt_before": ["nowhere"]}), json!(["body", "interrupt_before"])),
    ];
    for (options, place) in cases {
        let mut body = body("hi");
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let (status, refusal) = gateway.post(&path, &body).await;
        assert_eq!((status, &refusal["detail"][0]["loc"]), (422, &place), "{options} {refusal}");
    }
    let (status, refusal) = gateway.post(&path, &json!({"context": {"model_name": "gpt-x"}, "input": {}})).await;
    assert_eq!((status, &refusal["detail"]), (400, &json!("Model 'gpt-x' is not in the configured model allowlist")));
    let mut other = body("hi");
    other["checkpoint"] = json!({"thread_id": "another"});
    assert_eq!(gateway.post(&path, &other).await.0, 400);
    assert_eq!(gateway.get(&path).await, (200, json!([])));
}

#[tokio::test]
async fn what_sdks_send_beyond_the_original_is_accepted() {
    let gateway = Gateway::start().await;
    gateway.model.always(|_| Turn::text("ok"));
    let thread = thread(&gateway).await;
    let mut body = body("hi");
    let options = json!({
        "stream_resumable": true, "durability": "async", "checkpoint_during": true, "langsmith_tracer": {}, "strict_resume": false,
        "feedback_keys": ["a"], "on_completion": "keep", "if_not_exists": "create", "after_seconds": 0, "stream_subgraphs": true,
        "webhook": null, "interrupt_before": [], "checkpoint": {}, "config": {"tags": ["x"], "recursion_limit": 50}
    });
    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let (status, values) = gateway.post(&format!("/api/threads/{thread}/runs/wait"), &body).await;
    assert_eq!((status, &values["messages"].as_array().unwrap().last().unwrap()["content"]), (200, &json!("ok")));
}

#[tokio::test]
async fn a_key_makes_two_requests_one() {
    let gateway = Gateway::start().await;
    gateway.model.always(|_| Turn::text("ok"));
    let thread = thread(&gateway).await;
    let url = format!("{}/api/threads/{thread}/runs", gateway.url);
    let send =
        async |text: &str| answer(gateway.client.post(&url).header("Idempotency-Key", "k1").json(&body(text))).await;
    let (first, second, other) = (send("hi").await, send("hi").await, send("something else").await);
    assert_eq!((first.0, second.0, other.0), (200, 200, 409), "{} {}", second.1, other.1);
    assert_eq!(first.1["run_id"], second.1["run_id"]);
    let (_, listed) = gateway.get(&format!("/api/threads/{thread}/runs")).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_last_answer_can_be_given_again() {
    let gateway = Gateway::start().await;
    gateway.model.always(|request| Turn::text(format!("answer to {}", request.last_user_text().len())));
    let thread = thread(&gateway).await;
    let wait = format!("/api/threads/{thread}/runs/wait");
    for text in ["one", "two"] {
        gateway.post(&wait, &body(text)).await;
    }
    let (_, state) = gateway.get(&format!("/api/threads/{thread}/state")).await;
    let answers: Vec<&Value> =
        state["values"]["messages"].as_array().unwrap().iter().filter(|message| message["type"] == "ai").collect();
    let prepare = format!("/api/threads/{thread}/runs/regenerate/prepare");
    let (status, early) = gateway.post(&prepare, &json!({"message_id": answers[0]["id"]})).await;
    assert_eq!((status, early), (409, json!({"detail": "Only the latest assistant message can be regenerated"})));
    let (status, prepared) = gateway.post(&prepare, &json!({"message_id": answers[1]["id"]})).await;
    assert_eq!(status, 200, "{prepared}");
    assert_eq!(prepared["input"]["messages"][0]["content"][0]["text"], "two");
    let again = json!({
        "assistant_id": "lead_agent", "input": prepared["input"], "checkpoint": prepared["checkpoint"], "metadata": prepared["metadata"]
    });
    let (_, values) = gateway.post(&wait, &again).await;
    let questions = values["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["type"] == "human" && message["additional_kwargs"]["hide_from_ui"] != true);
    assert_eq!(questions.count(), 2);
    let (_, page) = gateway.get(&format!("/api/threads/{thread}/messages/page")).await;
    let shown = page["data"].as_array().unwrap().iter().filter(|row| row["content"]["type"] == "ai").count();
    assert_eq!(shown, 2, "{page}");

    let edit = format!("/api/threads/{thread}/runs/edit-regenerate/prepare");
    let last = values["messages"].as_array().unwrap().iter().rfind(|message| message["type"] == "human").unwrap();
    let same = json!({"human_message_id": last["id"], "replacement_text": " two "});
    assert_eq!(gateway.post(&edit, &same).await, (409, json!({"detail": "Edited message is unchanged"})));
    let other = json!({"human_message_id": last["id"], "replacement_text": "two, please"});
    let (status, prepared) = gateway.post(&edit, &other).await;
    assert_eq!((status, &prepared["metadata"]["replay_kind"]), (200, &json!("edit")), "{prepared}");
}

#[tokio::test]
async fn the_first_turn_can_be_answered_again_too() {
    let gateway = Gateway::start().await;
    gateway.model.always(|_| Turn::text("ok"));
    let thread = thread(&gateway).await;
    let (_, values) = gateway.post(&format!("/api/threads/{thread}/runs/wait"), &body("one")).await;
    let id = &values["messages"].as_array().unwrap().last().unwrap()["id"];
    let prepare = format!("/api/threads/{thread}/runs/regenerate/prepare");
    let (status, prepared) = gateway.post(&prepare, &json!({"message_id": id})).await;
    assert_eq!(status, 200, "{prepared}");
    let again =
        json!({"input": prepared["input"], "checkpoint": prepared["checkpoint"], "metadata": prepared["metadata"]});
    let (status, values) = gateway.post(&format!("/api/threads/{thread}/runs/wait"), &again).await;
    let answers = values["messages"].as_array().unwrap().iter().filter(|message| message["type"] == "ai").count();
    assert_eq!((status, answers), (200, 1));
}

#[tokio::test]
async fn a_run_is_found_in_its_own_thread_only() {
    let gateway = Gateway::start().await;
    gateway.model.always(|_| Turn::text("ok"));
    let (mine, other) = (thread(&gateway).await, thread(&gateway).await);
    let (_, run) = gateway.post(&format!("/api/threads/{mine}/runs"), &body("hi")).await;
    let id = run["run_id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/api/threads/{mine}/runs/{id}")).await.0, 200);
    for path in [format!("/api/threads/{other}/runs/{id}"), format!("/api/threads/{other}/runs/{id}/stream")] {
        assert_eq!(gateway.get(&path).await, (404, json!({"detail": format!("Run {id} not found")})));
    }
    assert_eq!(gateway.get("/api/threads/none/runs").await, (404, json!({"detail": "Thread none not found"})));
}
