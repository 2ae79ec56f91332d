use std::time::Duration;

use deerflow_testkit::{Gate, ScriptedModel, Turn, eventually, temp_home, within};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::client::{ask, open, post, read};

#[tokio::test]
async fn a_cut_stream_delivers_its_words_and_half_a_frame() {
    let model = ScriptedModel::start().await;
    model.push(Turn::cut_after("partial text"));
    let reply = post(&model, &ask("a", true)).await;
    assert_eq!(reply.text(), "partial text");
    assert!(!reply.body.contains("[DONE]") && !reply.body.ends_with("\n\n"), "{}", reply.body);
    let torn = reply.data().last().copied().unwrap_or_default().to_owned();
    assert!(serde_json::from_str::<serde_json::Value>(&torn).is_err(), "{torn}");
}

#[tokio::test]
async fn a_status_carries_its_error_and_retry_after() {
    let model = ScriptedModel::start().await;
    model.extend([Turn::status(429).retry_after(1), Turn::context_length_exceeded()]);
    let limited = post(&model, &ask("a", true)).await;
    assert!(limited.head.starts_with("http/1.0 429") && limited.head.contains("retry-after: 1"), "{}", limited.head);
    assert!(post(&model, &ask("a", true)).await.body.contains("context_length_exceeded"));
}

#[tokio::test]
async fn garbage_silence_and_raw_bytes_come_as_scripted() {
    let model = ScriptedModel::start().await;
    model.extend([
        Turn::garbage(),
        Turn::silence(Duration::from_millis(5)),
        Turn::raw_sse([&b"data: {\"a\": \"\xc3"[..], &b"\xa9\"}\n\n"[..]]),
    ]);
    assert!(post(&model, &ask("a", true)).await.chunks().is_empty());
    assert_eq!(post(&model, &ask("a", true)).await.body, "");
    assert_eq!(post(&model, &ask("a", true)).await.chunks(), [json!({"a": "é"})]);
}

#[tokio::test]
async fn a_gate_holds_the_reply_at_an_exact_point() {
    let model = ScriptedModel::start().await;
    let (before, inside) = (Gate::new(), Gate::new());
    model.extend([Turn::hang(&before), Turn::text("one two three").hold_after(2, &inside)]);

    let connection = open(&model, &ask("a", true)).await;
    before.reached().await;
    before.open();
    assert_eq!(read(connection).await.text(), "released");

    let mut connection = open(&model, &ask("a", true)).await;
    inside.reached().await;
    let seen = read_until(&mut connection, " two").await;
    assert!(!seen.contains("three"), "{seen}");
    inside.open();
    assert!(read_until(&mut connection, " three").await.contains(" three"));
    assert_eq!(inside.arrivals(), 1);
}

#[tokio::test]
async fn a_reader_that_leaves_is_noticed() {
    let model = ScriptedModel::start().await;
    let gate = Gate::new();
    model.extend([Turn::text("one two").hold_after(1, &gate), Turn::hang(&gate)]);
    for count in 1..=2 {
        let connection = open(&model, &ask("a", true)).await;
        gate.reached_by(count).await;
        drop(connection);
        model.abandoned(count).await;
    }
    model.received(2).await;
}

#[tokio::test]
async fn a_dropped_model_breaks_its_connections_and_frees_its_port() {
    let model = ScriptedModel::start().await;
    let gate = Gate::new();
    model.push(Turn::hang(&gate));
    let connection = open(&model, &ask("a", true)).await;
    gate.reached().await;
    let address = model.address();
    drop(model);
    assert_eq!(within("the connection to end", read(connection)).await.head, "");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
#[should_panic(expected = "request 0: message 1: tool call c has no result right after it")]
async fn an_unanswered_call_fails_the_assertion_with_its_place() {
    let model = ScriptedModel::start().await;
    let mut body = ask("a", true);
    body["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": null,
        "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}]}));
    model.push(Turn::text("x"));
    post(&model, &body).await;
    model.assert_every_tool_call_answered();
}

#[tokio::test]
async fn a_home_is_written_listed_and_gone_afterwards() {
    let home = temp_home();
    home.write("a/b.txt", "hi");
    home.write("c.txt", "x");
    assert_eq!(home.files(), ["a/b.txt", "c.txt"].map(std::path::PathBuf::from));
    assert_eq!((home.read("a/b.txt").as_deref(), home.read("none")), (Some("hi"), None));
    let path = home.path().to_path_buf();
    drop(home);
    let gone = eventually("the home to be gone", || async { (!path.exists()).then_some(true) }).await;
    assert!(gone);
}

async fn read_until(connection: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    within("the words before the gate", async {
        while !String::from_utf8_lossy(&seen).contains(end) {
            seen.push(connection.read_u8().await.unwrap());
        }
    })
    .await;
    String::from_utf8(seen).unwrap()
}
