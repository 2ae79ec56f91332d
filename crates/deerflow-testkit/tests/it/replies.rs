use std::time::Duration;

use deerflow_testkit::{AUXILIARY_TEXT, ScriptedModel, Turn, call, raw_call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::client::{ask, post};

#[tokio::test]
async fn turns_are_served_in_order_streamed_and_whole() {
    let model = ScriptedModel::start().await;
    model.extend([Turn::text("first one").usage(10, 5), Turn::text("second").usage(7, 1)]);

    let streamed = post(&model, &ask("a", true)).await;
    assert!(streamed.head.contains("content-type: text/event-stream"), "{}", streamed.head);
    assert_eq!(streamed.text(), "first one");
    assert_eq!(streamed.data().last(), Some(&"[DONE]"));
    let chunks = streamed.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    assert_eq!(chunks[chunks.len() - 1]["usage"], usage);

    let whole: Value = serde_json::from_str(&post(&model, &ask("b", false)).await.body).unwrap();
    assert_eq!(whole["choices"][0]["message"], json!({"role": "assistant", "content": "second"}));
    assert_eq!(whole["usage"]["total_tokens"], 8);

    assert_eq!(model.turns_left(), 0);
    let texts: Vec<_> = model.requests().iter().map(|request| request.last_user_text()).collect();
    assert_eq!(texts, ["a", "b"]);
    assert_eq!(model.requests()[0].header("authorization"), Some("Bearer key"));
    model.assert_legal();
}

#[tokio::test]
async fn a_stream_that_did_not_ask_for_usage_gets_none() {
    let model = ScriptedModel::start().await;
    model.push(Turn::text("x").usage(1, 1));
    let mut body = ask("a", true);
    body.as_object_mut().unwrap().remove("stream_options");
    assert!(post(&model, &body).await.chunks().iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn parallel_calls_arrive_in_pieces_that_add_up() {
    let long = json!({"path": "/a", "content": "x".repeat(50)});
    for interleaved in [false, true] {
        let model = ScriptedModel::start().await;
        let turn =
            Turn::text_and_calls("I will", [call("write_file", long.clone()), raw_call("ls", "{\"pa").id("mine")]);
        model.push(if interleaved { turn.interleaved() } else { turn }.reasoning("hm"));
        let reply = post(&model, &ask("a", true)).await;
        let mut arguments = [String::new(), String::new()];
        let mut order = Vec::new();
        for chunk in reply.chunks() {
            for piece in chunk.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let index = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
                arguments[index] += piece["function"]["arguments"].as_str().unwrap();
                order.push(index);
            }
        }
        assert_eq!(serde_json::from_str::<Value>(&arguments[0]).unwrap(), long);
        assert_eq!(arguments[1], "{\"pa");
        assert_eq!(order[..4], if interleaved { [0, 1, 0, 1] } else { [0; 4] });
        assert_eq!(reply.text(), "I will");
        assert_eq!(reply.chunks()[0]["choices"][0]["delta"]["reasoning_content"], "hm");
        assert!(reply.body.contains("\"mine\"") && reply.body.contains("\"finish_reason\":\"tool_calls\""));
    }
}

#[tokio::test]
async fn equal_requests_get_equal_bytes() {
    let model = ScriptedModel::start().await;
    let body = ask("[[script:tools n=2 width=2]]", true);
    let (first, second) = (post(&model, &body).await, post(&model, &body).await);
    assert_eq!(first.body, second.body);
    assert!(first.body.contains("_r0_1"), "{}", first.body);
    assert_eq!(model.counts(), [("tools".to_owned(), 2)].into());
}

#[tokio::test]
async fn a_request_without_tools_does_not_use_up_the_script() {
    let model = ScriptedModel::start().await;
    model.push(Turn::text("for the agent"));
    model.push_auxiliary(Turn::text("A title"));
    let mut title = ask("title?", true);
    title.as_object_mut().unwrap().remove("tools");
    assert_eq!(post(&model, &title).await.text(), "A title");
    assert_eq!(post(&model, &title).await.text(), AUXILIARY_TEXT);
    assert_eq!(post(&model, &ask("go", true)).await.text(), "for the agent");
    assert_eq!((model.requests().len(), model.agent_requests().len()), (3, 1));
}

#[tokio::test]
async fn a_program_answers_by_the_request_and_an_empty_script_refuses() {
    let model = ScriptedModel::start().await;
    let refused = post(&model, &ask("a", true)).await;
    assert!(refused.head.starts_with("http/1.0 400"), "{}", refused.head);
    assert!(refused.body.contains("no turn left"), "{}", refused.body);
    model.always(|request| Turn::text(request.last_user_text().to_uppercase()));
    assert_eq!(post(&model, &ask("shout", true)).await.text(), "SHOUT");
}

#[tokio::test]
async fn pauses_hold_back_the_end_of_a_reply() {
    let model = ScriptedModel::start().await;
    let start = std::time::Instant::now();
    model.push(
        Turn::text("a b c").first_token_after(Duration::from_millis(20)).delay_per_token(Duration::from_millis(15)),
    );
    post(&model, &ask("x", true)).await;
    // A lower bound only: it cannot fail on a slow machine.
    assert!(start.elapsed() >= Duration::from_millis(50));
}
