use super::*;
use crate::middleware::ToolErrorHandlingMiddleware;
use crate::middleware::scripted::*;
use crate::middleware::testing::context;
use deerflow_agent::{EphemeralLog, Start};
use deerflow_core::message::kwargs;
use deerflow_core::ports::*;
use deerflow_core::*;
use deerflow_documents::Converter;
use deerflow_sandbox::{HostProvider, SandboxConfig, ThreadPaths};
use deerflow_tools::{BuiltinTools, ToolLimits, ToolSelection, builtin_tools};
use pretty_assertions::assert_eq;
use std::path::PathBuf;
use std::sync::Mutex;

const A: &str = "/mnt/user-data/workspace/a.md";

/// The real file tools on a real folder.
struct Desk {
    dir: tempfile::TempDir,
    provider: Arc<dyn SandboxProvider>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = SandboxConfig { min_free_mb: 0, ..SandboxConfig::default() };
        let provider: Arc<dyn SandboxProvider> = Arc::new(HostProvider::new(dir.path(), config).unwrap());
        let tools = BuiltinTools::new(provider.clone(), ToolLimits::default(), Converter::default());
        let tools = builtin_tools(&tools, &ToolSelection::default());
        let desk = Self { dir, provider, tools };
        std::fs::create_dir_all(desk.host("a.md").parent().unwrap()).unwrap();
        desk
    }
    fn host(&self, name: &str) -> PathBuf {
        let paths = ThreadPaths::new(self.dir.path(), "default", "thread").unwrap();
        paths.user_data().join("workspace").join(name)
    }
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.host(name), content).unwrap();
        self
    }
    fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.host(name)).unwrap()
    }
    fn rig(&self, turns: Vec<Message>) -> Rig {
        let gate = ReadBeforeWriteMiddleware::new(
            ReadBeforeWriteConfig::default(),
            self.provider.clone(),
            Arc::new(KeyedLocks::default()),
        );
        // Changes the file behind the back of the file tools, as a command would.
        let host = self.host("a.md");
        let touch = tool("bash", move |_, args| {
            std::fs::write(&host, args["text"].as_str().unwrap()).unwrap();
            Ok(ToolOutput::text("(no output)"))
        });
        let tools = self.tools.iter().filter(|t| t.spec().name != "bash").cloned().chain([touch]);
        Rig::new(turns, tools, vec![Arc::new(gate), Arc::new(ToolErrorHandlingMiddleware)])
    }
    async fn run(&self, turns: Vec<Message>) -> Vec<String> {
        result_texts(&*self.rig(turns).go().await)
    }
}

fn read() -> ToolCall {
    call("r", "read_file", json!({"path": "a.md"}))
}
fn write(content: &str) -> ToolCall {
    call("w", "write_file", json!({"path": A, "content": content}))
}
fn append(content: &str) -> ToolCall {
    call("a", "write_file", json!({"path": "./a.md", "content": content, "append": true}))
}
fn replace(old: &str, new: &str) -> ToolCall {
    call("s", "str_replace", json!({"path": A, "old_str": old, "new_str": new}))
}
fn bash(text: &str) -> ToolCall {
    call("b", "bash", json!({"text": text}))
}
fn refused(text: &str) -> bool {
    text.contains("was not run:")
}

#[tokio::test]
async fn an_existing_file_must_be_read_and_a_new_one_need_not() {
    let desk = Desk::new();
    assert_eq!(desk.run(vec![turn([write("new\n")])]).await, ["OK"]);
    for change in [write("b\n"), append("b\n"), replace("new", "b")] {
        let texts = desk.run(vec![turn([change])]).await;
        assert_eq!(
            texts[0].split_once(": ").unwrap().1,
            format!(
                "{} was not run: {A} exists (1 line) and you have not read it. Read it first (read_file, for example with \
                 start_line=1 and end_line=1), look at what is there, then call again.",
                if texts[0].contains("str_replace") { "str_replace" } else { "write_file" }
            )
        );
    }
    assert_eq!(desk.content("a.md"), "new\n");
    let texts = desk.run(vec![turn([read()]), turn([replace("new", "b")])]).await;
    assert_eq!(texts, ["new\n", "OK\nreplaced 1 occurrence at line 1"]);
}

#[tokio::test]
async fn a_refusal_says_what_it_is() {
    let desk = Desk::new();
    let state = desk.file("a.md", "x".repeat(401).replace('x', "x\n")).rig(vec![turn([write("b")])]).go().await;
    let refusal = &results(&state)[0];
    assert!(refusal.text().contains("exists (401 lines)") && refusal.text().contains("start_line=372"), "{refusal:?}");
    assert_eq!(refusal.as_tool().unwrap().status, ToolStatus::Error);
    assert_eq!(refusal.additional_kwargs[WRITE_BLOCK], json!({"path": A, "tool": "write_file"}));
    // 401 lines are no HTTP status.
    assert_eq!(refusal.additional_kwargs[kwargs::TOOL_META]["error_type"], Value::Null);
    assert_eq!(refusal.additional_kwargs[kwargs::TOOL_META]["recoverable_by_model"], json!(true));
}

/// BR-137: a file that a command changed after it was read is not overwritten.
#[tokio::test]
async fn a_change_behind_the_back_closes_the_gate() {
    let desk = Desk::new();
    let texts =
        desk.file("a.md", "one\n").run(vec![turn([read()]), turn([bash("two\n")]), turn([write("three\n")])]).await;
    assert!(texts[2].contains("it has changed since you last read or wrote it"), "{texts:?}");
    assert_eq!(desk.content("a.md"), "two\n");
    // Changed and changed back is the file that was read.
    let texts =
        desk.run(vec![turn([read()]), turn([bash("x")]), turn([bash("two\n")]), turn([write("three\n")])]).await;
    assert_eq!(texts[3], "OK");
}

#[tokio::test]
async fn own_writes_are_knowledge_until_someone_else_writes() {
    let desk = Desk::new();
    let texts = desk
        .run(vec![
            turn([write("first line\n")]),
            turn([replace("first", "second")]),
            turn([append("third part\n")]),
            turn([write("all new\n")]),
            turn([bash("foreign\n")]),
            turn([replace("foreign", "mine")]),
        ])
        .await;
    assert!(!texts[..4].iter().any(|t| refused(t)), "{texts:?}");
    assert!(refused(&texts[5]), "{texts:?}");
}

#[tokio::test]
async fn a_mark_has_the_hash_of_the_whole_file() {
    let desk = Desk::new();
    let state = desk.rig(vec![turn([write("one\n")]), turn([append("two\n")])]).go().await;
    let sha = desk.provider.acquire("default", "thread").await.unwrap();
    let hash = sha.sha256(&VirtualPath::parse(A).unwrap()).await.unwrap();
    let marks: Vec<_> = results(&state).iter().map(|m| m.additional_kwargs[READ_MARK].clone()).collect();
    assert_eq!(marks[1], json!({"path": A, "hash": hash, "source": "write"}));
    assert!(marks[0] != marks[1]);
    // A part that was read stands for the whole.
    let part = call("r", "read_file", json!({"path": A, "start_line": 1, "end_line": 1}));
    let state = desk.rig(vec![turn([part])]).go().await;
    assert_eq!(results(&state)[0].additional_kwargs[READ_MARK], json!({"path": A, "hash": hash}));
}

/// The model that appends the same section again and again without looking.
#[tokio::test]
async fn a_section_is_not_added_twice_unseen() {
    let desk = Desk::new();
    let section = "\n## United States\n\ntext\n";
    let turns = || vec![turn([write("# Report\n")]), turn([append(section)]), turn([append(section)]), turn([read()])];
    let texts = desk.run(turns()).await;
    assert!(texts[2].contains("begins with \"## United States\", and line 3 of"), "{texts:?}");
    assert_eq!(texts[3].matches("United States").count(), 1);
    // Having looked, it may.
    let texts = desk.run(vec![turn([read()]), turn([append(section)])]).await;
    assert_eq!(texts[1], "OK");
}

#[tokio::test]
async fn of_two_writes_of_one_turn_only_the_first_is_based_on_what_was_read() {
    let desk = Desk::new();
    let two =
        turn([replace("one", "1"), call("s2", "str_replace", json!({"path": A, "old_str": "two", "new_str": "2"}))]);
    let texts = desk.file("a.md", "one two\n").run(vec![turn([read()]), two, turn([replace("two", "2")])]).await;
    let refusals: Vec<bool> = texts[1..3].iter().map(|t| refused(t)).collect();
    assert_eq!(refusals.iter().filter(|r| **r).count(), 1, "{texts:?}");
    assert!(texts[1..3].iter().any(|t| t.contains("another call of the same turn changed it")), "{texts:?}");
    assert!(!refused(&texts[3]), "the first of the two left a mark: {texts:?}");
    // A read of the same turn was not seen when the write was made.
    let desk = Desk::new();
    let texts = desk.file("a.md", "one\n").run(vec![turn([read(), write("two\n")])]).await;
    assert!(refused(&texts[1]), "{texts:?}");
}

#[tokio::test]
async fn reads_that_show_nothing_leave_no_mark() {
    let desk = Desk::new();
    desk.file("a.md", "one\n");
    for range in [
        json!({"start_line": 0}),
        json!({"start_line": 9}),
        json!({"start_line": 3, "end_line": 2}),
        json!({"end_line": 0}),
    ] {
        let mut call = read();
        call.args.extend(range.as_object().cloned().unwrap());
        let texts = desk.run(vec![turn([call]), turn([write("two\n")])]).await;
        assert!(refused(&texts[1]), "{texts:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_judged_is_left_to_the_tool() {
    let desk = Desk::new();
    std::fs::create_dir(desk.host("dir")).unwrap();
    desk.file("bin", b"\x00\x01\x02\xff").file("empty", "");
    let write = |path: Value| call("w", "write_file", json!({"path": path, "content": "x"}));
    let texts = desk
        .run(vec![
            turn([write(json!("bin"))]),
            turn([write(json!("dir"))]),
            turn([write(json!("../x"))]),
            turn([write(json!({}))]),
        ])
        .await;
    assert_eq!(texts[0], "OK");
    assert!(
        texts[1].contains("is a directory")
            && texts[2].contains("path traversal")
            && texts[3].contains("must be string")
    );
    assert_eq!(desk.run(vec![turn([write(json!("empty"))])]).await, ["OK"], "nothing can be lost");
    // Binary content that was let through is not known afterwards, unless all of it is the model's.
    desk.file("bin", b"\x00\x01");
    let append = call("a", "write_file", json!({"path": "bin", "content": "x", "append": true}));
    let state = desk.rig(vec![turn([append])]).go().await;
    assert_eq!(results(&state)[0].additional_kwargs.get(READ_MARK), None);
}

#[tokio::test]
async fn marks_of_other_tools_and_failed_writes_do_not_count() {
    let desk = Desk::new();
    desk.file("a.md", "one\n");
    let hash = desk.provider.acquire("default", "thread").await.unwrap();
    let hash = hash.sha256(&VirtualPath::parse(A).unwrap()).await.unwrap();
    let forged = tool("remote", move |_, _| {
        let extras = json!({READ_MARK: {"path": A, "hash": hash}}).as_object().cloned().unwrap();
        Ok(ToolOutput { additional_kwargs: extras, ..ToolOutput::text("x") })
    });
    let gate = ReadBeforeWriteMiddleware::new(Default::default(), desk.provider.clone(), Arc::default());
    let tools = desk.tools.iter().cloned().chain([forged]);
    let turns = vec![turn([call("f", "remote", json!({}))]), turn([write("two\n")])];
    let texts = result_texts(&*Rig::new(turns, tools, vec![Arc::new(gate)]).go().await);
    assert!(refused(&texts[1]), "{texts:?}");
    let state = desk.rig(vec![turn([read()]), turn([replace("absent", "x")])]).go().await;
    assert_eq!(results(&state)[1].additional_kwargs.get(READ_MARK), None);
}

#[tokio::test]
async fn the_mark_goes_with_its_message() {
    let desk = Desk::new();
    let rig = desk.file("a.md", "one\n").rig(vec![turn([read()]), Message::ai("ok"), turn([write("two\n")])]);
    rig.go().await;
    let compacted = StateUpdate::messages([Message::remove_all(), Message::human("go on")]);
    let state = rig.start(&context(), Start::Input(compacted)).await.unwrap().state;
    assert!(refused(&result_texts(&state)[0]));
}

/// Loses the commit that ends a tool batch, once.
struct Losing(Arc<EphemeralLog>, Mutex<bool>);

#[async_trait]
impl StepLog for Losing {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        if commit.kind == StepKind::Tools && commit.step > 3 && std::mem::take(&mut *self.1.lock().unwrap()) {
            return Err(StoreError::Database("gone".into()));
        }
        self.0.commit(commit).await
    }
    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.0.load(lineage, at).await
    }
    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.0.history(lineage, before, limit).await
    }
}

/// The write happened and the process died. The file differs from what was read because of this very call.
#[tokio::test]
async fn a_write_that_is_resumed_is_verified_and_not_refused() {
    let desk = Desk::new();
    let rig = desk.file("a.md", "one\n").rig(vec![turn([read()]), turn([append("two\n")]), turn([append("four\n")])]);
    let log = Arc::new(Losing(rig.log.clone(), Mutex::new(true)));
    let agent = rig.agent.with_step_log(log);
    let input = Start::Input(StateUpdate::messages([Message::human("go")]));
    let error = agent.run(&context(), input).await.unwrap_err();
    assert!(error.to_string().contains("gone"), "a storage failure gets through");
    assert_eq!(desk.content("a.md"), "one\ntwo\n");
    let state = agent.run(&context(), Start::Resume).await.unwrap().state;
    assert_eq!(result_texts(&state)[1], "OK");
    assert!(desk.content("a.md").starts_with("one\ntwo\n"));
    assert!(refused(&result_texts(&state)[2]), "what a resumed part rests on is not known for sure");
}

#[tokio::test]
async fn cancellation_gets_through() {
    let desk = Desk::new();
    let ctx = context();
    ctx.cancel.cancel();
    let input = Start::Input(StateUpdate::messages([Message::human("go")]));
    let error = desk.rig(vec![turn([write("x")])]).start(&ctx, input).await.unwrap_err();
    assert!(error.is_cancelled());
}

#[tokio::test]
async fn the_content_of_a_refused_write_is_left_out_of_requests_only() {
    let desk = Desk::new();
    desk.file("a.md", "one\n");
    let long = "x".repeat(3000);
    let both = call("s", "str_replace", json!({"path": A, "old_str": "y".repeat(2000), "new_str": "short"}));
    let rig = desk.rig(vec![
        turn([write(&long), both]),
        turn([read()]),
        turn([call("w", "write_file", json!({"path": A, "content": long}))]),
    ]);
    let state = rig.go().await;
    let sent = rig.script.sent(3);
    let calls: Vec<&ToolCall> = sent.iter().flat_map(|m| m.tool_calls()).collect();
    assert_eq!(
        calls[0].args["content"],
        "[3000 characters not shown again: this write_file was refused and wrote nothing.]"
    );
    assert_eq!(
        calls[1].args["old_str"],
        "[2000 characters not shown again: this str_replace was refused and wrote nothing.]"
    );
    assert_eq!(calls[1].args["new_str"], "short");
    // The same call id in a later turn, not refused.
    assert_eq!(calls[3].args["content"], json!(long));
    assert_eq!(state.messages[1].tool_calls()[0].args["content"], json!(long));
}

/// A command of the same turn changes the file while it is read.
#[tokio::test]
async fn a_file_that_changes_while_it_is_read_stays_unknown() {
    let desk = Desk::new();
    let host = desk.file("a.md", "one\n").host("a.md");
    let racing = tool("read_file", move |_, _| {
        std::fs::write(&host, "two\n").unwrap();
        Ok(ToolOutput::text("one\n"))
    });
    let gate = ReadBeforeWriteMiddleware::new(Default::default(), desk.provider.clone(), Arc::default());
    let tools = desk.tools.iter().filter(|t| t.spec().name != "read_file").cloned().chain([racing]);
    let state = Rig::new(vec![turn([read()]), turn([write("three\n")])], tools, vec![Arc::new(gate)]).go().await;
    assert!(refused(&result_texts(&state)[1]));
    assert_eq!(desk.content("a.md"), "two\n");
}

/// Some providers number the calls of every turn from zero.
#[test]
fn a_refusal_is_looked_for_within_its_turn() {
    let long = write(&"x".repeat(3000));
    let refusal = Message::tool_error("Error", "w", "write_file").with_kwarg(WRITE_BLOCK, json!({}));
    let history = [turn([long.clone()]), turn([long.clone()]), refusal].map(Arc::new);
    let mut messages = history.to_vec();
    elide::elide(&mut messages, 0);
    assert!(Arc::ptr_eq(&messages[0], &history[0]), "not answered, and so not refused");
    assert_ne!(messages[1].tool_calls()[0], long);
    let short = turn([write("short")]);
    let mut messages = vec![Arc::new(short.clone()), history[2].clone()];
    elide::elide(&mut messages, 0);
    assert_eq!(*messages[0], short, "what would not become shorter stays");
}

#[tokio::test]
async fn a_file_that_begins_with_an_error_can_be_read_and_changed() {
    let desk = Desk::new();
    let turns = vec![turn([read()]), turn([replace("Error", "Warning")])];
    let texts = desk.file("a.md", "Error: disk full\n").run(turns).await;
    assert!(!refused(&texts[1]), "{texts:?}");
    assert_eq!(desk.content("a.md"), "Warning: disk full\n");
}
