use super::super::testing::context;
use super::*;
use deerflow_core::message::kwargs;
use deerflow_core::state::{DelegationEntry, SkillEntry, TaskNote};
use deerflow_core::{ToolCall, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn middleware() -> DurableContextMiddleware {
    DurableContextMiddleware::new(vec!["read_file".into(), "cat".into()], "/mnt/skills", None)
}

fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall::new(id, name, args.as_object().cloned().unwrap())
}

fn task(id: &str) -> Message {
    Message::ai_calls("", vec![call(id, "task", json!({"description": "look  it\nup", "subagent_type": "bash"}))])
}

fn asks(run: &str) -> Message {
    Message::human("do it").with_kwarg("run_id", run)
}

fn state(messages: Vec<Message>) -> ThreadState {
    let mut state = ThreadState::default();
    state.apply(&StateUpdate::messages(messages)).unwrap();
    state
}

async fn captured(state: &mut ThreadState) -> Vec<DelegationEntry> {
    let hook = middleware().before_model(&context(), state).await.unwrap();
    state.apply(&hook.update).unwrap();
    hook.update.delegations.unwrap_or_default()
}

#[tokio::test]
async fn a_task_is_in_progress_until_its_structured_outcome_is_there() {
    let mut state = state(vec![asks("run"), task("c")]);
    let hook = middleware().after_model(&context(), &state).await.unwrap();
    let sent = &hook.update.delegations.as_ref().unwrap()[0];
    assert_eq!(
        (sent.status.as_str(), sent.description.as_str(), sent.run_id.as_deref()),
        ("in_progress", "look it up", Some("run"))
    );
    state.apply(&hook.update).unwrap();
    assert_eq!(captured(&mut state).await, [], "nothing changed");
    let created = state.delegations.as_ref().unwrap()[0].created_at.clone();
    // A text says nothing about the outcome.
    let mut silent = state.clone();
    silent.apply(&StateUpdate::messages([Message::tool("Task Succeeded. Result: x", "c", "task")])).unwrap();
    assert_eq!(captured(&mut silent).await, []);
    let long = format!("start {} end", "x".repeat(5000));
    let result = Message::tool(long, "c", "task")
        .with_kwarg("subagent_status", "completed")
        .with_kwarg("subagent_stop_reason", "turn_capped");
    state.apply(&StateUpdate::messages([result])).unwrap();
    let done = captured(&mut state).await.remove(0);
    assert_eq!(
        (done.status.as_str(), done.stop_reason.as_deref(), &done.created_at),
        ("completed", Some("turn_capped"), &created)
    );
    let brief = done.result_brief.unwrap();
    assert!(brief.starts_with("start xx") && brief.ends_with("x end") && brief.chars().count() == 2000);
    assert_eq!(done.result_sha256.unwrap().len(), 64);
    assert_eq!(captured(&mut state).await, []);
}

#[tokio::test]
async fn a_call_that_was_refused_or_has_a_legacy_status_is_over() {
    let refused = Message::tool_error("Error: no", "c", "task");
    assert_eq!(captured(&mut state(vec![asks("run"), task("c"), refused])).await[0].status, "failed");
    let legacy = Message::tool("r", "c", "task").with_kwarg("subagent_status", "max_turns_reached");
    let entry = captured(&mut state(vec![asks("run"), task("c"), legacy])).await.remove(0);
    assert_eq!((entry.status.as_str(), entry.stop_reason.as_deref()), ("failed", Some("turn_capped")));
}

#[tokio::test]
async fn a_new_turn_cancels_what_an_earlier_one_left_open_and_a_resume_does_not() {
    let mut state = state(vec![asks("old"), task("c")]);
    // The same run goes on, or another run answers a question: the turn is still the old one.
    assert_eq!(captured(&mut state).await[0].run_id.as_deref(), Some("old"));
    assert_eq!(captured(&mut state).await, []);
    state.apply(&StateUpdate::messages([asks("run")])).unwrap();
    let cancelled = captured(&mut state).await;
    assert_eq!((cancelled[0].status.as_str(), cancelled.len()), ("cancelled", 1));
    // Providers use ids again: a call of this run is another one.
    state.apply(&StateUpdate::messages([task("c")])).unwrap();
    captured(&mut state).await;
    let ledger: Vec<_> = state
        .delegations
        .as_ref()
        .unwrap()
        .iter()
        .map(|e| format!("{} {}", e.run_id.as_deref().unwrap(), e.status))
        .collect();
    assert_eq!(ledger, ["old cancelled", "run in_progress"]);
}

#[tokio::test]
async fn an_id_that_comes_again_within_a_run_does_not_reopen_or_flip_an_entry() {
    let result = |text: &str| Message::tool(text, "c", "task").with_kwarg("subagent_status", "completed");
    let mut state = state(vec![asks("run"), task("c"), result("one")]);
    captured(&mut state).await;
    state.apply(&StateUpdate::messages([task("c")])).unwrap();
    assert_eq!(captured(&mut state).await, []);
    state.apply(&StateUpdate::messages([result("two")])).unwrap();
    assert_eq!(captured(&mut state).await[0].result_brief.as_deref(), Some("two"));
    assert_eq!(captured(&mut state).await, []);
    // The result was lost with a compaction, say.
    state.messages.retain(|m| m.as_tool().is_none());
    assert_eq!(captured(&mut state).await, []);
}

const SKILL: &str = "---\nname: charts\ndescription: >\n  Draws   charts\n  well.\n---\n# body\n";

fn reads(path: &str, asked: &str) -> ThreadState {
    let mut result = Message::tool(SKILL, "r", "read_file");
    SkillReads::stamp(&mut result, path);
    state(vec![asks("run"), Message::ai_calls("", vec![call("r", "read_file", json!({"path": asked}))]), result])
}

#[tokio::test]
async fn a_skill_that_was_read_is_remembered_by_its_path() {
    let path = "/mnt/skills/public/charts/SKILL.md";
    let mut state = reads(path, "/mnt/skills/public/./charts/SKILL.md");
    let skills = |hook: &Hook| hook.update.skill_context.clone();
    let hook = middleware().before_model(&context(), &state).await.unwrap();
    let entry =
        SkillEntry { name: "charts".into(), path: path.into(), description: "Draws charts well.".into(), loaded_at: 2 };
    assert_eq!(skills(&hook), Some(vec![entry]));
    state.apply(&hook.update).unwrap();
    assert_eq!(skills(&middleware().before_model(&context(), &state).await.unwrap()), None);
    // A stamp about another file, a file outside, a failed read.
    let other = reads("/mnt/skills/public/other/SKILL.md", path);
    assert_eq!(skills(&middleware().before_model(&context(), &other).await.unwrap()), None);
    let outside = reads("/mnt/user-data/workspace/SKILL.md", "/mnt/user-data/workspace/SKILL.md");
    assert_eq!(skills(&middleware().before_model(&context(), &outside).await.unwrap()), None);
    let mut failed = Message::tool_error("Error: no", "r", "read_file");
    SkillReads::stamp(&mut failed, path);
    assert!(failed.additional_kwargs.is_empty());
}

#[test]
fn only_skill_files_under_the_root_are_skills() {
    let skills = SkillReads::new(vec!["read_file".into()], "/mnt/skills/".into());
    let path = |name: &str, path: &str| skills.path_of(&call("c", name, json!({"path": path})));
    assert_eq!(path("read_file", "/mnt/skills/a/SKILL.md").as_deref(), Some("/mnt/skills/a/SKILL.md"));
    for (tool, other) in [
        ("bash", "/mnt/skills/a/SKILL.md"),
        ("read_file", "/mnt/skills/a/README.md"),
        ("read_file", "/mnt/skills-backup/a/SKILL.md"),
        ("read_file", "/mnt/skills/../SKILL.md"),
        ("read_file", "/mnt/skills/a/MYSKILL.md"),
    ] {
        assert_eq!(path(tool, other), None, "{tool} {other}");
    }
}

fn shown(state: &ThreadState, artifacts: Option<&str>) -> ChatRequest {
    let mut request = ChatRequest { messages: state.messages.clone(), ..ChatRequest::default() };
    render::show(&mut request, state, artifacts);
    request
}

#[test]
fn with_nothing_to_say_a_request_stays_as_it_is() {
    let mut state = state(vec![Message::human("x")]);
    state.delegations = Some(vec![]);
    state.summary_text = Some(" ".into());
    assert_eq!(shown(&state, Some(" ")).messages, state.messages);
}

#[test]
fn everything_that_outlives_compaction_is_shown_behind_the_system_messages() {
    let mut state = state(vec![Message::system("date"), Message::ai("go on")]);
    state.summary_text = Some("they <b> said".into());
    state.skill_context = Some(vec![SkillEntry {
        name: "n".into(),
        path: "/mnt/skills/n/SKILL.md".into(),
        description: "d</x>".into(),
        loaded_at: 1,
    }]);
    let note = TaskNote { content: "keep".into(), source_ids: vec!["r1".into()], authority: "model_report".into() };
    state.task_notes = Some([("k".to_owned(), note)].into_iter().collect());
    state.task_history =
        Some(json!({"status": "available", "batches": [{"records": 3, "omitted_records": 1}, {"records": 4}]}));
    state.delegations = Some(vec![DelegationEntry {
        id: "c".into(),
        description: "d".into(),
        status: "completed".into(),
        result_brief: Some("x".repeat(500)),
        ..Default::default()
    }]);
    let request = shown(&state, Some("art_1 -> file: a"));
    let roles: Vec<_> = request.messages.iter().map(|m| m.role()).collect();
    assert_eq!(roles, ["system", "system", "human", "ai"]);
    assert!(request.messages[2].flag(kwargs::HIDE_FROM_UI));
    let data = request.messages[2].text().into_owned();
    for part in [
        "<conversation_summary>\nthey &lt;b&gt; said\n</conversation_summary>",
        "- n: d&lt;/x&gt; -> /mnt/skills/n/SKILL.md",
        "- k: keep [sources: r1]",
        "7 earlier messages in 2 batches are archived, 1 older ones left out.",
        "<artifacts>\nart_1 -> file: a\n</artifacts>",
        "- [completed] d - done; do not send it again. Result: xxxx",
    ] {
        assert!(data.contains(part), "{part}\n{data}");
    }
    assert!(!data.contains(&"x".repeat(121)));
    state.task_history = Some(json!({"status": "odd", "batches": []}));
    assert!(shown(&state, None).messages[2].text().contains("could not be archived"));
}

#[test]
fn the_ledger_shows_the_newest_that_fit_and_counts_the_rest() {
    let entry = |n: usize| DelegationEntry {
        id: n.to_string(),
        description: format!("{n} {}", "界".repeat(190)),
        status: "failed".into(),
        result_brief: Some("y".repeat(200)),
        ..Default::default()
    };
    let mut state = state(vec![Message::human("x")]);
    state.delegations = Some((0..50).map(entry).collect());
    state.summary_text = Some("&".repeat(9000));
    let data = shown(&state, None).messages[1].text().into_owned();
    let ledger = data.split("<delegations>\n").nth(1).unwrap().split("</delegations>").next().unwrap();
    assert!(ledger.chars().count() <= 6000 && ledger.starts_with("- [failed] 49 "), "{}", ledger.chars().count());
    let shown = ledger.lines().filter(|line| line.starts_with("- ")).count();
    assert!(ledger.ends_with(&format!("({} older ones are not shown)\n", 50 - shown)), "{ledger}");
    assert_eq!(data.matches("&amp;").count(), 5999, "the summary is cut before it is escaped");
}

#[tokio::test]
async fn reading_a_skill_stamps_the_result_in_a_real_run() {
    struct Read(ToolSpec);
    #[async_trait]
    impl deerflow_core::Tool for Read {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        async fn call(
            &self,
            _: &deerflow_core::ToolContext,
            _: deerflow_core::JsonMap,
        ) -> Result<deerflow_core::ToolOutput, deerflow_core::ToolError> {
            Ok(deerflow_core::ToolOutput::text(SKILL))
        }
    }
    let path = "/mnt/skills/public/charts/SKILL.md";
    let model = super::super::testing::script(vec![
        Message::ai_calls("", vec![call("r", "read_file", json!({"path": path}))]),
        Message::ai("ok"),
    ]);
    let tool: Arc<dyn deerflow_core::Tool> =
        Arc::new(Read(ToolSpec { name: "read_file".into(), description: String::new(), parameters: json!({}) }));
    let chain: Arc<dyn Middleware> = Arc::new(middleware());
    let agent = deerflow_agent::Agent::builder(model.clone()).tools([tool]).middleware([chain]).build().unwrap();
    let done = agent.run(&context(), super::super::testing::says("go")).await.unwrap();
    assert_eq!(done.state.skill_context.as_ref().unwrap()[0].path, path);
    let second = &model.requests()[1];
    assert!(
        second.messages[1].text().contains("- charts: Draws charts well. -> /mnt/skills/public/charts/SKILL.md"),
        "{}",
        second.messages[1].text()
    );
}
