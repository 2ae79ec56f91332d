use super::*;
use deerflow_core::JsonMap;
use deerflow_core::ports::{EffectRecord, NewRun, Worker};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

struct Bench {
    store: SqliteStore,
    user: UserId,
    thread: ThreadId,
    _folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("db"), StoreOptions::default()).await.unwrap();
        Self { store, user: UserId::local(), thread: ThreadId::parse("t").unwrap(), _folder: folder }
    }

    fn lineage(&self) -> Lineage {
        Lineage::root(self.thread.clone())
    }

    async fn admit(&self) -> Fence {
        let run = NewRun {
            run_id: RunId::random(),
            thread_id: self.thread.clone(),
            user_id: self.user.clone(),
            worker: Worker { id: "w".into(), label: "process 1 on host alpha".into() },
            input: StateUpdate::none(),
            options: json!({}),
            idempotency_key: None,
        };
        let row = self.store.admit(run).await.unwrap();
        Fence { run_id: row.run_id, epoch: row.epoch }
    }

    /// A step of a run on the head.
    async fn step(&self, fence: &Fence, next: Next, messages: Vec<Message>) -> CheckpointId {
        let head = self.store.load(&self.lineage(), None).await.unwrap();
        let update = StateUpdate::messages(messages);
        let mut state = head.as_ref().map(|head| head.state.clone()).unwrap_or_default();
        state.apply(&update).unwrap();
        let commit = StepCommit {
            run_id: Some(fence.run_id.clone()),
            fence: Some(fence.clone()),
            kind: StepKind::Model,
            next,
            updates: vec![NodeUpdate { node: "model".into(), update }],
            state: Arc::new(state),
            ..commit(&self.lineage(), head.as_ref())
        };
        self.store.commit(commit).await.unwrap().checkpoint_id.unwrap()
    }

    async fn finish(&self, fence: &Fence, status: RunStatus) {
        let outcome = RunOutcome { status, error: None, stop_reason: None, usage: Default::default() };
        self.store.finish(fence, outcome, vec![]).await.unwrap();
    }

    /// A whole run that says something.
    async fn run(&self, id: &str) -> (RunId, CheckpointId) {
        let fence = self.admit().await;
        self.step(&fence, Next::Model, vec![Message::human(id).with_id(id)]).await;
        let end = self.step(&fence, Next::Done, vec![Message::ai(id).with_id(format!("{id}-answer"))]).await;
        self.finish(&fence, RunStatus::Success).await;
        (fence.run_id, end)
    }

    async fn edit(&self, edit: StateEdit) -> Result<Committed, EditError> {
        update_state(&self.store, &self.user, &self.thread, edit).await
    }

    async fn head(&self) -> Checkpoint {
        self.store.load(&self.lineage(), None).await.unwrap().unwrap()
    }

    async fn said(&self) -> Vec<String> {
        self.head().await.state.messages.iter().map(|message| message.id().to_owned()).collect()
    }
}

fn titled(title: &str) -> StateEdit {
    StateEdit { update: StateUpdate { title: Some(title.into()), ..StateUpdate::none() }, ..StateEdit::default() }
}

fn calling(id: &str) -> Message {
    Message::ai_calls("", vec![ToolCall::new("c0", "bash", JsonMap::new())]).with_id(id)
}

#[tokio::test]
async fn an_edit_goes_through_the_reducers_and_keeps_the_place() {
    let bench = Bench::new().await;
    let (_, end) = bench.run("a").await;
    let update = StateUpdate {
        title: Some("New".into()),
        artifacts: Some(vec!["/f".into()]),
        ..StateUpdate::messages([Message::human("changed").with_id("a"), Message::human("without an id")])
    };
    let committed = bench.edit(StateEdit { update, ..StateEdit::default() }).await.unwrap();
    let head = bench.head().await;
    assert_eq!((Some(head.id.clone()), head.parent.clone()), (committed.checkpoint_id, Some(end)));
    assert_eq!((head.kind, head.next, head.run_id.clone(), head.step), (StepKind::Edit, Next::Done, None, 2));
    assert_eq!(head.state.messages.len(), 3);
    assert_eq!(head.state.messages[0].text(), "changed");
    let row = bench.store.thread(&bench.user, &bench.thread).await.unwrap().unwrap();
    assert_eq!(row.title.as_deref(), Some("New"));
    let journal = bench.store.journal(&bench.thread, None, 0, 9).await.unwrap();
    assert_eq!(journal.last().unwrap().row.event, "state.edit");
    assert_eq!(journal.last().unwrap().row.content["channels"], json!(["messages", "title", "artifacts"]));

    // The same, in place of what is there.
    let update = StateUpdate {
        artifacts: Some(vec!["/g".into()]),
        ..StateUpdate::messages([Message::human("alone").with_id("z")])
    };
    bench.edit(StateEdit { update, replace: true, ..StateEdit::default() }).await.unwrap();
    let state = bench.head().await.state;
    assert_eq!((bench.said().await, state.artifacts), (vec!["z".to_owned()], Some(vec!["/g".to_owned()])));
    assert_eq!(state.title.as_deref(), Some("New"), "what is not written stays");
}

#[tokio::test]
async fn an_edit_of_an_older_checkpoint_is_a_branch() {
    let bench = Bench::new().await;
    let (_, first) = bench.run("a").await;
    let (_, second) = bench.run("b").await;
    let edit = StateEdit { at: Some(first.clone()), ..titled("Branched") };
    bench.edit(edit).await.unwrap();
    assert_eq!((bench.said().await, bench.head().await.parent), (vec!["a".into(), "a-answer".into()], Some(first)));
    let old = bench.store.load(&bench.lineage(), Some(&second)).await.unwrap().unwrap();
    assert_eq!(old.state.messages.len(), 4, "nothing is lost");
    let (_, _) = bench.run("c").await;
    assert_eq!(bench.said().await, ["a", "a-answer", "c", "c-answer"]);
}

#[tokio::test]
async fn a_thread_goes_on_after_the_node_that_an_edit_names() {
    let bench = Bench::new().await;
    bench.run("a").await;
    let human = || StateUpdate::messages([Message::human("more").with_id("h")]);
    for (node, update, next) in [
        ("__input__", human(), Next::Model),
        ("tools", human(), Next::Model),
        ("model", StateUpdate::messages([Message::ai("done").with_id("x")]), Next::End),
        ("model", StateUpdate::messages([calling("y")]), Next::Tools),
        ("Title.after_model", StateUpdate::none(), Next::Tools),
        ("Title.before_model", StateUpdate::none(), Next::Model),
        ("Title.after_agent", StateUpdate::none(), Next::Done),
        ("__end__", human(), Next::Done),
    ] {
        let edit = StateEdit { as_node: Some(node.to_owned()), update, ..StateEdit::default() };
        bench.edit(edit).await.unwrap();
        assert_eq!(bench.head().await.next, next, "{node}");
    }
    for node in ["", "nonsense", ".after_model", "Title.during"] {
        let error = bench.edit(StateEdit { as_node: Some(node.to_owned()), ..StateEdit::default() }).await.unwrap_err();
        assert!(matches!(&error, EditError::UnknownNode(named) if named == node), "{error}");
    }
}

#[tokio::test]
async fn an_edit_that_answers_the_open_calls_ends_the_batch() {
    let bench = Bench::new().await;
    let fence = bench.admit().await;
    bench.step(&fence, Next::Tools, vec![calling("y")]).await;
    bench.finish(&fence, RunStatus::Interrupted).await;
    bench.edit(titled("Named")).await.unwrap();
    assert_eq!(bench.head().await.next, Next::Tools);
    let update = StateUpdate::messages([Message::tool("by hand", "c0", "bash").with_id("r")]);
    bench.edit(StateEdit { update, ..StateEdit::default() }).await.unwrap();
    assert_eq!(bench.head().await.next, Next::Model);
}

#[tokio::test]
async fn what_cannot_be_edited_is_refused_and_left() {
    let bench = Bench::new().await;
    let error = bench.edit(titled("x")).await.unwrap_err();
    assert_eq!(error.to_string(), "thread t does not exist");
    bench.run("a").await;
    let eve = UserId::parse("eve").unwrap();
    let error = update_state(&bench.store, &eve, &bench.thread, titled("x")).await.unwrap_err();
    assert_eq!(error.to_string(), "thread t does not exist");
    let stranger = CheckpointId::next();
    let error = bench.edit(StateEdit { at: Some(stranger.clone()), ..titled("x") }).await.unwrap_err();
    assert_eq!(error.to_string(), format!("checkpoint {stranger} does not exist"));
    let gone = StateUpdate::messages([Message::remove("nobody")]);
    let error = bench.edit(StateEdit { update: gone, ..StateEdit::default() }).await.unwrap_err();
    assert!(matches!(error, EditError::State(StateError::NoSuchMessage { .. })), "{error}");
    let fence = bench.admit().await;
    let error = bench.edit(titled("x")).await.unwrap_err();
    let shown = format!("thread t has an active run {} (held by process 1 on host alpha)", fence.run_id);
    assert_eq!(error.to_string(), shown);
    assert_eq!(bench.head().await.state.title, None);
}

#[tokio::test]
async fn edits_at_once_are_all_made() {
    let bench = Bench::new().await;
    bench.run("a").await;
    let edit = |name: &str| StateEdit {
        update: StateUpdate::messages([Message::human(name).with_id(name)]),
        ..StateEdit::default()
    };
    let (one, two) = tokio::join!(bench.edit(edit("one")), bench.edit(edit("two")));
    one.unwrap();
    two.unwrap();
    let mut said = bench.said().await;
    said.sort();
    assert_eq!(said, ["a", "a-answer", "one", "two"]);
}

#[tokio::test]
async fn an_empty_thread_can_be_edited() {
    let bench = Bench::new().await;
    bench.store.create_thread(&bench.user, &bench.thread, JsonMap::new()).await.unwrap();
    bench.edit(titled("First")).await.unwrap();
    let head = bench.head().await;
    assert_eq!((head.next, head.parent, head.state.title.as_deref()), (Next::Done, None, Some("First")));
}

#[tokio::test]
async fn a_rolled_back_run_leaves_the_state_before_it() {
    let bench = Bench::new().await;
    let (first, base) = bench.run("a").await;
    let before = bench.head().await.state;
    let (second, end) = bench.run("b").await;
    bench.edit(titled("While it lay there")).await.unwrap();
    let error = rollback_run(&bench.store, &bench.user, &first).await.unwrap_err();
    assert!(matches!(&error, EditError::NotLast { last, .. } if *last == second), "{error}");
    rollback_run(&bench.store, &bench.user, &second).await.unwrap();

    let head = bench.head().await;
    assert_eq!((head.state.clone(), head.parent.clone(), head.next), (before, Some(base), Next::Done));
    let row = bench.store.run(&second).await.unwrap().unwrap();
    assert_eq!(
        (row.status, row.error.as_deref(), row.stop_reason.as_deref()),
        (RunStatus::Error, Some("Rolled back by user"), Some(ROLLED_BACK))
    );
    let thread = bench.store.thread(&bench.user, &bench.thread).await.unwrap().unwrap();
    assert_eq!((thread.status.as_str(), thread.title), ("idle", None));
    let kept = bench.store.load(&bench.lineage(), Some(&end)).await.unwrap().unwrap();
    assert_eq!(kept.state.messages.len(), 4);
    // Once is enough.
    let again = rollback_run(&bench.store, &bench.user, &second).await.unwrap();
    assert_eq!(again.checkpoint_id, Some(head.id));
    // It does not come back to life.
    let worker = Worker { id: "x".into(), label: "x".into() };
    assert!(matches!(bench.store.adopt(&second, row.epoch, &worker).await, Err(StoreError::NotFound { .. })));
    bench.run("c").await;
    assert_eq!(bench.said().await, ["a", "a-answer", "c", "c-answer"]);
}

#[tokio::test]
async fn the_first_run_rolls_back_to_nothing() {
    let bench = Bench::new().await;
    let (run, _) = bench.run("a").await;
    let eve = UserId::parse("eve").unwrap();
    assert!(matches!(
        rollback_run(&bench.store, &eve, &run).await,
        Err(EditError::Store(StoreError::NotFound { what: "run", .. }))
    ));
    rollback_run(&bench.store, &bench.user, &run).await.unwrap();
    let head = bench.head().await;
    assert_eq!((head.state, head.parent, head.next), (ThreadState::default(), None, Next::Done));
}

#[tokio::test]
async fn a_live_run_is_not_rolled_back_and_one_without_steps_moves_nothing() {
    let bench = Bench::new().await;
    let (_, end) = bench.run("a").await;
    let fence = bench.admit().await;
    let busy = rollback_run(&bench.store, &bench.user, &fence.run_id).await.unwrap_err();
    assert!(matches!(busy, EditError::Store(StoreError::ThreadBusy { .. })), "{busy}");
    bench.finish(&fence, RunStatus::Interrupted).await;
    rollback_run(&bench.store, &bench.user, &fence.run_id).await.unwrap();
    assert_eq!((bench.said().await, bench.head().await.parent), (vec!["a".into(), "a-answer".into()], Some(end)));
}

#[tokio::test]
async fn a_batch_that_was_cut_off_before_the_run_is_not_called_undone() {
    let bench = Bench::new().await;
    let first = bench.admit().await;
    bench.step(&first, Next::Tools, vec![calling("y")]).await;
    let head = bench.head().await;
    let started =
        EffectRecord::Started { step: 1, index: 0, call_id: "c0".into(), tool: "bash".into(), fingerprint: None };
    let effects = StepCommit {
        run_id: Some(first.run_id.clone()),
        fence: Some(first.clone()),
        kind: StepKind::Effects,
        effects: vec![started],
        ..commit(&bench.lineage(), Some(&head))
    };
    bench.store.commit(effects).await.unwrap();
    bench.finish(&first, RunStatus::Interrupted).await;
    let second = bench.admit().await;
    bench.step(&second, Next::Done, vec![Message::tool("settled", "c0", "bash").with_id("r")]).await;
    bench.finish(&second, RunStatus::Success).await;
    rollback_run(&bench.store, &bench.user, &second.run_id).await.unwrap();
    let head = bench.head().await;
    let last = head.state.messages.last().unwrap();
    assert_eq!(
        (head.next, head.state.messages.len(), last.as_tool().unwrap().tool_call_id.as_str()),
        (Next::Model, 2, "c0")
    );
    assert!(last.text().starts_with("Error: outcome unknown. The call to `bash`"), "{}", last.text());
}
