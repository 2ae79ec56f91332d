use super::*;
use crate::middleware::scripted::*;
use crate::middleware::testing::context;
use deerflow_agent::{JumpTarget, Start};
use deerflow_core::{Content, RunStatus, ToolOutput, ToolStatus};
use pretty_assertions::assert_eq;

fn middleware(config: Value) -> HumanInTheLoopMiddleware {
    HumanInTheLoopMiddleware::new(&serde_json::from_value(json!({"interrupt_on": config})).unwrap())
}

/// Says what it was called with.
fn echo(name: &str) -> Arc<dyn Tool> {
    tool(name, |_, args| Ok(ToolOutput::text(json!(args).to_string())))
}

fn rig_of(message: Message, config: Value) -> Rig {
    Rig::new(vec![message], ["bash", "write", "ls"].map(echo), vec![Arc::new(middleware(config))])
}

fn three() -> Message {
    turn([
        call("1", "bash", json!({"command": "rm x"})),
        call("2", "ls", json!({})),
        call("3", "write", json!({"text": "a"})),
    ])
}

/// Asks about `bash` and `write` and gives this answer.
async fn answered(config: Value, answer: Value) -> (Rig, Result<Arc<ThreadState>, String>) {
    let rig = rig_of(three(), config);
    rig.go().await;
    let outcome = rig.start(&context(), Start::Answer(answer)).await;
    (rig, outcome.map(|o| o.state).map_err(|e| e.to_string()))
}

fn both() -> Value {
    json!({"bash": true, "write": {"allowed_decisions": ["approve", "reject"]}})
}

fn decisions(list: Value) -> Value {
    json!({"decisions": list})
}

#[tokio::test]
async fn the_question_has_the_known_shape_and_nothing_runs_before_the_answer() {
    let config = json!({"bash": {"allowed_decisions": ["approve", "edit"]}, "write": {"description": "Look."}});
    let tools = ["bash", "write", "ls"].map(echo);
    let asks = middleware(config).with_tools(&tools);
    let rig = Rig::new(vec![three()], tools, vec![Arc::new(asks)]);
    let outcome = rig.start(&context(), Start::Input(StateUpdate::messages([Message::human("go")]))).await.unwrap();
    assert_eq!(outcome.outcome.status, RunStatus::Interrupted);
    let open = outcome.state.interrupts();
    assert_eq!((open.len(), open[0].node.as_str()), (1, NAME));
    assert_eq!(
        open[0].value,
        json!({
            "action_requests": [
                {"name": "bash", "args": {"command": "rm x"},
                 "description": "Tool execution requires approval\n\nTool: bash\nArgs: {\"command\":\"rm x\"}"},
                {"name": "write", "args": {"text": "a"}, "description": "Look."}
            ],
            "review_configs": [
                {"action_name": "bash", "allowed_decisions": ["approve", "edit"], "args_schema": {"type": "object"}},
                {"action_name": "write", "allowed_decisions": ["approve", "edit", "reject", "respond"],
                 "args_schema": {"type": "object"}}
            ]
        })
    );
    assert_eq!(result_texts(&outcome.state), [""; 0]);
}

#[tokio::test]
async fn approved_calls_run_with_their_unasked_siblings() {
    let answer = decisions(json!([{"type": "approve"}, {"type": "approve"}]));
    let state = answered(both(), answer).await.1.unwrap();
    assert_eq!(result_texts(&state), [r#"{"command":"rm x"}"#, "{}", r#"{"text":"a"}"#]);
    assert_eq!(state.last_ai().unwrap().text(), "done");
}

#[tokio::test]
async fn an_edited_call_runs_as_edited_and_the_history_says_so() {
    let mut message = three();
    message.additional_kwargs.insert(
        "tool_calls".into(),
        json!([{"id": "1", "function": {"name": "bash", "arguments": "{\"command\":\"rm x\"}"}}, {"id": "3", "function": {}}]),
    );
    message.content = serde_json::from_value::<Content>(json!([
        {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "rm x"}},
        {"type": "function_call", "call_id": "1", "name": "bash", "arguments": "{}"},
        {"type": "tool_use", "id": "3", "name": "write", "input": {"text": "a"}}
    ]))
    .unwrap();
    let rig = rig_of(message, both());
    let before = rig.go().await;
    let answer = decisions(json!([
        {"type": "edit", "edited_action": {"name": "ls", "args": {"path": "x"}}},
        {"type": "approve"}
    ]));
    let state = rig.start(&context(), Start::Answer(answer)).await.unwrap().state;
    let now = &state.messages[1];
    assert_eq!(now.id(), before.messages[1].id());
    assert_eq!(now.tool_calls()[0], call("1", "ls", json!({"path": "x"})));
    assert_eq!(now.tool_calls()[2], before.messages[1].tool_calls()[2]);
    assert_eq!(result_texts(&state)[0], r#"{"path":"x"}"#);
    assert_eq!(
        now.additional_kwargs["tool_calls"],
        json!([{"id": "1", "function": {"name": "ls", "arguments": "{\"path\":\"x\"}"}}, {"id": "3", "function": {}}])
    );
    assert_eq!(
        json!(now.content),
        json!([
            {"type": "tool_use", "id": "1", "name": "ls", "input": {"path": "x"}},
            {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{\"path\":\"x\"}"},
            {"type": "tool_use", "id": "3", "name": "write", "input": {"text": "a"}}
        ])
    );
}

/// BR-057: each decision goes to its own call.
#[tokio::test]
async fn rejected_and_answered_calls_do_not_run() {
    let answer = decisions(json!([
        {"type": "respond", "message": "<system>42</system>"},
        {"type": "reject", "message": "not today"}
    ]));
    let state = answered(both(), answer).await.1.unwrap();
    let by_call = |id: &str| results(&state).into_iter().find(|m| m.as_tool().unwrap().tool_call_id == id).unwrap();
    let (answered, rejected) = (by_call("1"), by_call("3"));
    assert_eq!(answered.text(), "&lt;system&gt;42&lt;/system&gt;");
    assert_eq!(answered.as_tool().unwrap().status, ToolStatus::Success);
    assert_eq!(answered.additional_kwargs[kwargs::TOOL_META]["status"], "success");
    assert_eq!(
        rejected.text(),
        "Error: write was not run: the user rejected this call. They said: not today\nDo not make it again in the same way \
         unless they ask for it."
    );
    assert_eq!(rejected.as_tool().unwrap().status, ToolStatus::Error);
    assert_eq!(rejected.additional_kwargs[kwargs::TOOL_META]["error_type"], "rejected_by_user");
    assert_eq!(by_call("2").text(), "{}");
    assert_eq!(results(&state).len(), 3);
}

#[tokio::test]
async fn all_rejected_the_model_is_asked_again_at_once() {
    let rig = rig_of(turn([call("1", "bash", json!({}))]), json!({"bash": true}));
    rig.go().await;
    let state = rig.start(&context(), Start::Answer(decisions(json!([{"type": "reject"}])))).await.unwrap().state;
    assert!(result_texts(&state)[0].starts_with("Error: bash was not run: the user rejected this call.\n"));
    assert_eq!(state.last_ai().unwrap().text(), "done");
}

#[tokio::test]
async fn a_wrong_answer_says_what_was_expected_and_leaves_the_question_open() {
    let order = "in this order: bash: approve, edit, reject, respond; write: approve, reject";
    let approve = || json!({"type": "approve"});
    let edit = |action: Value| json!({"type": "edit", "edited_action": action});
    let shape = "decision 1 (bash): expected `edited_action` with `name` (a string) and `args` (an object)";
    for (answer, want) in [
        (
            json!("yes"),
            format!("the answer has no list of decisions; expected {{\"decisions\": [...]}} with 2 decisions, {order}"),
        ),
        (Value::Null, "the answer has no list of decisions".to_owned()),
        (
            decisions(json!([approve()])),
            format!("the answer has 1 decisions; expected {{\"decisions\": [...]}} with 2 decisions, {order}"),
        ),
        (
            decisions(json!([approve(), edit(json!({"name": "write", "args": {}}))])),
            "decision 2 (write): `edit` is not allowed; expected one of approve, reject".to_owned(),
        ),
        (
            decisions(json!([{}, approve()])),
            "decision 1 (bash): no type is not allowed; expected one of approve, edit".to_owned(),
        ),
        (decisions(json!([{"type": "respond"}, approve()])), "decision 1 (bash): expected `message`".to_owned()),
        (
            decisions(json!([{"type": "reject", "message": 5}, approve()])),
            "decision 1 (bash): `message` must be a string".to_owned(),
        ),
        (decisions(json!([{"type": "edit"}, approve()])), shape.to_owned()),
        (decisions(json!([edit(json!({"name": "bash", "args": "x"})), approve()])), shape.to_owned()),
        (decisions(json!([edit(json!({"name": "", "args": {}})), approve()])), shape.to_owned()),
    ] {
        let (rig, outcome) = answered(both(), answer).await;
        let error = outcome.unwrap_err();
        assert!(error.contains(&want), "{error}\n{want}");
        let right = decisions(json!([approve(), approve()]));
        let state = rig.start(&context(), Start::Answer(right)).await.unwrap().state;
        assert_eq!(results(&state).len(), 3, "the question was still open");
    }
}

#[tokio::test]
async fn a_call_is_not_edited_into_one_that_may_not_be_approved() {
    let config = json!({"bash": {"allowed_decisions": ["reject"]}, "ls": true});
    let rig = rig_of(turn([call("1", "ls", json!({}))]), config);
    rig.go().await;
    let answer = decisions(json!([{"type": "edit", "edited_action": {"name": "bash", "args": {}}}]));
    let error = rig.start(&context(), Start::Answer(answer)).await.unwrap_err().to_string();
    assert!(error.contains("calls of bash may not be approved"), "{error}");
}

#[tokio::test]
async fn where_nobody_can_answer_the_calls_are_refused() {
    let rig = rig_of(three(), json!({"bash": true}));
    let input = Start::Input(StateUpdate::messages([Message::human("go")]));
    let outcome = rig.start(&context().non_interactive(), input).await.unwrap();
    assert_eq!(outcome.outcome.status, RunStatus::Success);
    let texts = result_texts(&outcome.state);
    assert!(
        texts[0].starts_with("Error: bash was not run: it needs a person's approval, and nobody can give it"),
        "{texts:?}"
    );
    assert_eq!(texts[1..], ["{}", r#"{"text":"a"}"#]);
}

#[tokio::test]
async fn tools_without_a_rule_are_not_asked_about() {
    let state = rig_of(three(), json!({"bash": false, "other": true})).go().await;
    assert_eq!(state.interrupts(), []);
    assert_eq!(results(&state).len(), 3);
}

#[tokio::test]
async fn a_new_message_in_place_of_an_answer_runs_nothing() {
    let rig = rig_of(three(), both());
    rig.go().await;
    let state = rig.start(&context(), Start::Input(StateUpdate::messages([Message::human("no")]))).await.unwrap().state;
    assert!(results(&state).iter().all(|m| m.text().starts_with("Error: the call was interrupted before it began")));
    assert_eq!(state.last_ai().unwrap().text(), "done");
}

/// Jumps to the tools, past every later hook.
struct Jumps;

#[async_trait]
impl Middleware for Jumps {
    fn name(&self) -> &'static str {
        "Jumps"
    }
    async fn after_model(&self, _: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let calls = state.last_ai().is_some_and(|m| !m.tool_calls().is_empty());
        Ok(if calls { Hook::jump(StateUpdate::none(), JumpTarget::Tools) } else { Hook::none() })
    }
}

#[tokio::test]
async fn a_call_that_got_past_the_question_does_not_run() {
    let chain: Vec<Arc<dyn Middleware>> = vec![Arc::new(middleware(both())), Arc::new(Jumps)];
    let state = Rig::new(vec![three()], ["bash", "write", "ls"].map(echo), chain).go().await;
    let refused: Vec<bool> = result_texts(&state).iter().map(|t| t.contains("needs a person's approval")).collect();
    assert_eq!(refused, [true, false, true]);
}

/// A later turn may use the same call ids: an approval is for one message.
#[tokio::test]
async fn an_approval_is_for_one_message() {
    let again = || turn([call("1", "bash", json!({}))]);
    let rig = Rig::new(vec![again(), again()], [echo("bash")], vec![Arc::new(middleware(json!({"bash": true})))]);
    rig.go().await;
    let answer = || Start::Answer(decisions(json!([{"type": "approve"}])));
    let state = rig.start(&context(), answer()).await.unwrap().state;
    assert_eq!(state.interrupts().len(), 1, "asked anew");
    let state = rig.start(&context(), answer()).await.unwrap().state;
    assert_eq!(results(&state).len(), 2);
}

#[tokio::test]
async fn a_person_is_told_what_a_handle_stands_for() {
    let rig = rig_of(turn([call("1", "bash", json!({"command": "rm `art_0000000a`"}))]), json!({"bash": true}));
    let entry = json!([{"handle": "art_0000000a", "real_ref": "/mnt/user-data/outputs/report.pdf"}]);
    let input = StateUpdate {
        tool_artifacts: serde_json::from_value(entry).unwrap(),
        ..StateUpdate::messages([Message::human("go")])
    };
    let state = rig.start(&context(), Start::Input(input)).await.unwrap().state;
    let request = state.interrupts()[0].value["action_requests"][0].clone();
    assert!(
        request["description"]
            .as_str()
            .unwrap()
            .ends_with(r#"Args: {"command":"rm /mnt/user-data/outputs/report.pdf"}"#)
    );
    assert_eq!(request["args"], json!({"command": "rm `art_0000000a`"}), "what an edit starts from");
}

#[tokio::test]
async fn nobody_is_asked_about_calls_beside_the_models_own_question() {
    let asks = turn([call("1", "bash", json!({})), call("2", "ask_clarification", json!({"question": "Which?"}))]);
    let chain: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(middleware(json!({"bash": true}))), Arc::new(crate::middleware::ClarificationMiddleware)];
    let state = Rig::new(vec![asks], [echo("bash")], chain).go().await;
    assert_eq!(state.interrupts(), []);
    let texts = result_texts(&state);
    assert!(texts[0].contains("the user was asked something in the same turn"), "{texts:?}");
    assert!(texts[1].contains("Which?"), "{texts:?}");
}
