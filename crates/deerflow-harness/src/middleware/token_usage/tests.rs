use super::super::testing::context;
use super::*;
use pretty_assertions::assert_eq;

fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall::new(id, name, args.as_object().cloned().unwrap())
}

async fn after(messages: Vec<Message>, todos: Value) -> ThreadState {
    let mut state = ThreadState { todos: serde_json::from_value(todos).unwrap(), ..ThreadState::default() };
    state.apply(&StateUpdate::messages(messages)).unwrap();
    for _ in 0..2 {
        // A second time changes nothing.
        let hook = TokenUsageMiddleware.after_model(&context(), &state).await.unwrap();
        state.apply(&hook.update).unwrap();
    }
    assert!(TokenUsageMiddleware.after_model(&context(), &state).await.unwrap().update.is_empty());
    state
}

async fn attributed(reply: Message, todos: Value) -> Value {
    after(vec![Message::human("x"), reply], todos).await.last_ai().unwrap().additional_kwargs[ATTRIBUTION].clone()
}

#[tokio::test]
async fn each_kind_of_reply_has_its_name() {
    let kind = async |reply: Message| attributed(reply, json!(null)).await["kind"].as_str().unwrap().to_owned();
    assert_eq!(kind(Message::ai("done")).await, "final_answer");
    assert_eq!(kind(Message::ai(" ")).await, "thinking");
    assert_eq!(kind(Message::ai_calls("", vec![call("1", "task", json!({}))])).await, "subagent_dispatch");
    let two = || vec![call("1", "task", json!({})), call("2", "task", json!({}))];
    assert_eq!(kind(Message::ai_calls("", two())).await, "tool_batch");
    assert_eq!(kind(Message::ai_calls("", vec![call("1", "ls", json!({}))])).await, "tool_batch");
    assert_eq!(kind(Message::ai_calls("", vec![call("1", "write_todos", json!({"todos": []}))])).await, "todo_update");
}

#[tokio::test]
async fn actions_say_what_each_call_is_for() {
    let reply = Message::ai_calls(
        "",
        vec![
            call("1", "task", json!({"description": "look", "subagent_type": "bash", "prompt": "secret"})),
            call("2", "web_search", json!({"query": "q"})),
            call("3", "present_files", json!({})),
            call("4", "ask_clarification", json!({})),
            call("5", "bash", json!({"description": "list", "command": "ls"})),
        ],
    );
    assert_eq!(
        attributed(reply, json!(null)).await,
        json!({
            "version": 1, "kind": "tool_batch", "shared_attribution": true, "tool_call_ids": ["1", "2", "3", "4", "5"],
            "actions": [
                {"kind": "subagent", "tool_call_id": "1", "description": "look", "subagent_type": "bash"},
                {"kind": "search", "tool_call_id": "2", "tool_name": "web_search", "query": "q"},
                {"kind": "present_files", "tool_call_id": "3"},
                {"kind": "clarification", "tool_call_id": "4"},
                {"kind": "tool", "tool_call_id": "5", "tool_name": "bash", "description": "list"},
            ]
        })
    );
}

#[tokio::test]
async fn a_new_plan_is_told_by_what_changed() {
    let before =
        json!([{"content": "a", "status": "in_progress"}, {"content": "b"}, {"content": "c"}, {"content": "same"}]);
    let next = json!([
        {"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "new", "status": "pending"},
        {"content": "same", "status": "pending"}
    ]);
    let told = attributed(Message::ai_calls("", vec![call("1", "write_todos", json!({"todos": next}))]), before).await;
    let actions: Vec<_> =
        told["actions"].as_array().unwrap().iter().map(|a| format!("{} {}", a["kind"], a["content"])).collect();
    assert_eq!(
        actions,
        ["\"todo_complete\" \"a\"", "\"todo_start\" \"b\"", "\"todo_update\" \"new\"", "\"todo_remove\" \"c\""]
    );
    assert_eq!(told["kind"], "todo_update");
}

#[tokio::test]
async fn what_sub_agents_used_is_added_to_their_caller_once() {
    let mut caller = Message::ai_calls(
        "",
        vec![call("a", "task", json!({})), call("b", "task", json!({})), call("c", "ls", json!({}))],
    );
    caller.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(10, 1));
    let result = |id: &str, usage: Value| Message::tool("r", id, "task").with_kwarg(SUBAGENT_USAGE, usage);
    let state = after(
        vec![
            Message::human("x"),
            caller,
            result("a", json!({"input_tokens": 100, "output_tokens": 20, "total_tokens": 120})),
            result("b", json!({"input_tokens": 5, "output_tokens": 5})),
            result("c", json!({"input_tokens": -3})),
            Message::ai("done"),
        ],
        json!(null),
    )
    .await;
    let usage = state.messages[1].as_ai().unwrap().usage_metadata.clone().unwrap();
    assert_eq!(usage, Usage::new(115, 26));
    let marks: Vec<bool> = state.messages[2..5].iter().map(|m| m.flag(ATTRIBUTED)).collect();
    assert_eq!(marks, [true, true, false]);
}
