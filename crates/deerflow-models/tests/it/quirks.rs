//! Each row of the quirks table in both directions: what its server is sent, what its reply is read as, and how that reply
//! goes back with the next request. The replies are written from the providers' public documents.

use crate::fake::{Fake, Reply, run};
use deerflow_core::message::kwargs;
use deerflow_core::{ChatRequest, Content, ContentBlock, Message, ToolCall, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

fn bash() -> Arc<ToolSpec> {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    Arc::new(ToolSpec { name: "bash".into(), description: "runs a command".into(), parameters })
}

/// A thinking request after one call and one answer, asked in two blocks by somebody with a name.
fn request() -> ChatRequest {
    let args = [("command".to_owned(), json!("ls"))].into_iter().collect();
    let texts = ["What is there?", "Be short."].map(|text| ContentBlock::Text(text.into()));
    let messages = vec![
        Message::human(Content::Blocks(texts.into())).with_name("ann"),
        Message::ai_calls("", vec![ToolCall::new("call_1", "bash", args)])
            .with_kwarg(kwargs::REASONING_CONTENT, "look"),
        Message::tool("a.md <tool_call>", "call_1", "bash"),
        Message::ai("One file.").with_kwarg(kwargs::REASONING_CONTENT, "say it"),
        Message::human("And now?"),
    ];
    ChatRequest {
        system: Some("Be good.".into()),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![bash()],
        thinking: true,
        max_tokens: Some(100),
        ..ChatRequest::default()
    }
}

/// The request, what became of the reply, and the reply as a part of the next request.
async fn both_ways(profile: Value, reply: &str, kind: &str) -> Value {
    let mut seen = Value::Null;
    // Wherever the network cuts, it is the same.
    for size in [1, 11, 1_000_000] {
        let replies = [Reply::new(200, kind, reply).cut(size), Reply::json(500, &json!({"error": "enough"}))];
        let fake = Fake::start(replies).await;
        let mut extra = json!({"supports_thinking": true});
        extra.as_object_mut().unwrap().extend(profile.as_object().unwrap().clone());
        let model = fake.model(profile["use"].as_str().unwrap(), extra);
        let outcome = run(&*model, request()).await;
        let shown = outcome.text();
        let message = outcome.message();
        assert_eq!(shown, message.text(), "what was shown is the answer");
        let mut next = request();
        next.messages.push(Arc::new(message.clone()));
        let results = message.tool_calls().iter().map(|call| Message::tool("done", call.id(), call.name.clone()));
        next.messages.extend(results.map(Arc::new));
        next.messages.push(Arc::new(Message::human("Thanks.")));
        run(&*model, next).await.error();
        let bodies = fake.bodies();
        let replayed = &bodies[1]["messages"].as_array().unwrap()[bodies[0]["messages"].as_array().unwrap().len()..];
        let part = message.as_ai().unwrap();
        let calls: Vec<Value> =
            part.tool_calls.iter().map(|call| json!({"id": call.id(), "name": call.name, "args": call.args})).collect();
        let turn = json!({
            "text": message.text(), "reasoning": message.additional_kwargs.get(kwargs::REASONING_CONTENT), "calls": calls,
            "usage": part.usage_metadata, "finish_reason": message.finish_reason(),
        });
        let all = json!({"1 sent": bodies[0], "2 read": turn, "3 sent again": replayed});
        if !seen.is_null() {
            assert_eq!(all, seen, "cut into pieces of {size}");
        }
        seen = all;
    }
    seen
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

fn chunk(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "model": "served", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"id": "c", "model": "served", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": reason}]})
}

fn usage(usage: Value) -> Value {
    json!({"id": "c", "model": "served", "choices": [], "usage": usage})
}

fn call(index: Value, id: Value, name: Value, arguments: &str) -> Value {
    let mut call = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    if !index.is_null() {
        call["index"] = index;
    }
    if !id.is_null() {
        call["id"] = id;
    }
    chunk(json!({"tool_calls": [call]}))
}

async fn streamed(profile: Value, chunks: &[Value]) -> Value {
    both_ways(profile, &sse(chunks), "text/event-stream").await
}

#[tokio::test]
async fn deepseek() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": ""})),
        chunk(json!({"content": null, "reasoning_content": "Once "})),
        chunk(json!({"content": null, "reasoning_content": "more."})),
        chunk(json!({"content": "I look.", "reasoning_content": null})),
        call(json!(0), json!("call_00_a"), json!("bash"), ""),
        call(json!(0), Value::Null, Value::Null, "{\"command\": \"ls\"}"),
        json!({"id": "c", "model": "served", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "prompt_cache_hit_tokens": 16,
                "prompt_cache_miss_tokens": 14, "completion_tokens_details": {"reasoning_tokens": 5}}}),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "deepseek"}), &chunks).await);
}

#[tokio::test]
async fn vllm() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"reasoning": "Once "})),
        chunk(json!({"reasoning": "more."})),
        call(json!(0), json!("chatcmpl-tool-0123456789abcdef0123456789abcdef"), json!("bash"), "{\"command\""),
        call(json!(0), Value::Null, Value::Null, ": \"ls\"}"),
        end("tool_calls"),
        // With `cumulative_stream_usage` each chunk has all so far; the last counts.
        usage(json!({"prompt_tokens": 30, "completion_tokens": 11, "total_tokens": 41})),
        usage(json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42})),
    ];
    let profile = json!({"use": "vllm", "extra_body": {"chat_template_kwargs": {"thinking": true, "other": 1}}});
    insta::assert_json_snapshot!(streamed(profile, &chunks).await);
}

#[tokio::test]
async fn minimax() {
    let details = |text: &str| {
        chunk(json!({"reasoning_details": [
            {"type": "reasoning.text", "id": "reasoning-text-1", "format": "MiniMax-response-v1", "index": 0, "text": text}
        ]}))
    };
    let chunks = [
        details("Once "),
        details(" more."),
        chunk(json!({"content": "I look.\n"})),
        call(json!(0), json!("call_function_1"), json!("bash"), "{\"command\": \"ls\"}"),
        end("tool_calls"),
        usage(json!({"total_tokens": 42, "prompt_tokens": 30, "completion_tokens": 12})),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "minimax"}), &chunks).await);
}

#[tokio::test]
async fn mimo() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": "", "reasoning_content": ""})),
        call(json!(0), json!("call_b"), json!("bash"), "{\"command\": \"ls\"}"),
        end("tool_calls"),
        usage(
            json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "prompt_tokens_details": {"cached_tokens": 8}}),
        ),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "mimo"}), &chunks).await);
}

#[tokio::test]
async fn stepfun() {
    let chunks = [
        chunk(json!({"role": "assistant", "reasoning": "Once "})),
        chunk(json!({"reasoning": "more."})),
        chunk(json!({"content": "Nothing new."})),
        end("stop"),
        usage(json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42})),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "stepfun"}), &chunks).await);
}

#[tokio::test]
async fn mindie() {
    let content = "I look.\\n<tool_call> <function=bash> <parameter=command>ls</parameter> </function> </tool_call>";
    let reply = json!({"id": "c", "object": "chat.completion", "model": "served", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}});
    insta::assert_json_snapshot!(both_ways(json!({"use": "mindie"}), &reply.to_string(), "application/json").await);
}

#[tokio::test]
async fn qwen() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": "Once more."})),
        call(json!(0), json!("call_c"), json!("bash"), "{\"command\":"),
        call(json!(0), json!(""), json!(""), " \"ls\"}"),
        end("tool_calls"),
        usage(json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42,
            "completion_tokens_details": {"reasoning_tokens": 5}, "prompt_tokens_details": {"cached_tokens": 4}})),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "qwen"}), &chunks).await);
}

#[tokio::test]
async fn kimi() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"reasoning_content": "Once more."})),
        call(json!(0), json!("bash:0"), json!("bash"), ""),
        call(json!(0), Value::Null, Value::Null, "{\"command\": \"ls\"}"),
        call(json!(1), json!("bash:1"), json!("bash"), "{\"command\": \"pwd\"}"),
        json!({"id": "c", "model": "served", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls",
            "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "cached_tokens": 20}}]}),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "kimi"}), &chunks).await);
}

#[tokio::test]
async fn ollama() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": "", "reasoning": "Once more."})),
        // No index: both are whole calls.
        chunk(json!({"tool_calls": [
            {"id": "call_x1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}},
            {"id": "call_x2", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"pwd\"}"}}
        ]})),
        end("tool_calls"),
        usage(json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42})),
    ];
    insta::assert_json_snapshot!(streamed(json!({"use": "ollama"}), &chunks).await);
}

#[tokio::test]
async fn openrouter() {
    let chunks = [
        chunk(json!({"role": "assistant", "content": "", "reasoning": "Once ", "reasoning_details": [
            {"type": "reasoning.text", "text": "Once ", "format": "anthropic-claude-v1", "index": 0}]})),
        chunk(json!({"content": "", "reasoning": "more.", "reasoning_details": [
            {"type": "reasoning.text", "text": "more.", "signature": "SIG", "format": "anthropic-claude-v1", "index": 0}]})),
        chunk(json!({"content": "", "reasoning": null, "reasoning_details": [
            {"type": "reasoning.encrypted", "data": "0A", "id": "r1", "index": 1}]})),
        call(json!(0), json!("toolu_1"), json!("bash"), "{\"command\": \"ls\"}"),
        json!({"id": "c", "model": "served", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "tool_calls",
            "native_finish_reason": "tool_use"}]}),
        usage(json!({"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "cost": 0.001})),
    ];
    let text = format!(": OPENROUTER PROCESSING\n\n{}", sse(&chunks));
    insta::assert_json_snapshot!(both_ways(json!({"use": "openrouter"}), &text, "text/event-stream").await);
}

/// A model of a server that knows no tools, in each format that it may have been taught.
#[tokio::test]
async fn calls_as_text() {
    let replies = [
        ("fenced_json", "I look.\n```tool_call\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n```"),
        (
            "tool_call_tags",
            "I look.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
        ),
        (
            "xml",
            "I look.\n<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        ),
    ];
    for (format, text) in replies {
        let pieces: Vec<Value> =
            text.chars().map(|c| chunk(json!({"content": c.to_string()}))).chain([end("stop")]).collect();
        let profile = json!({"use": "openai", "quirks": "vllm", "tool_call_format": format});
        let both = streamed(profile, &pieces).await;
        assert_eq!(both["1 sent"].get("tools"), None, "{format}");
        insta::assert_json_snapshot!(format!("calls_as_text_{format}"), both);
    }
}
