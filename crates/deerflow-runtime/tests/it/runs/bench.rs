//! A service over a database file of its own, and more of them over the same.

use deerflow::assembly;
use deerflow_config::Loader;
use deerflow_core::ports::{Checkpoint, RunRow, StepLog as _};
use deerflow_core::{Lineage, Message, Principal, RunStatus, StateUpdate, ThreadId, UserId};
use deerflow_runtime::bridge::Bridge;
use deerflow_runtime::runs::{Caller, CreateRun, RunInput, RunsConfig};
use deerflow_runtime::{RunView, Runs, Views, WorkerLock};
use deerflow_store::SqliteStore;
use deerflow_testkit::{ScriptedModel, TempHome, temp_home};
use std::sync::Arc;
use tokio::runtime::Runtime;

pub(crate) struct Bench {
    pub(crate) model: ScriptedModel,
    pub(crate) home: TempHome,
    pub(crate) runs: Runs<SqliteStore>,
    pub(crate) store: Arc<SqliteStore>,
    yaml: String,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::start_with(RunsConfig::default()).await
    }

    pub(crate) async fn start_with(config: RunsConfig) -> Self {
        let model = ScriptedModel::start().await;
        let home = temp_home();
        let yaml = format!(
            "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: {}\n    api_key: test-key-123456\n\
             sandbox:\n  use: host\n  allow_host_bash: true\ntitle:\n  enabled: false\nllm_call:\n  retry_base_delay_ms: 10\n  retry_cap_delay_ms: 20\n",
            model.base_url()
        );
        let (runs, store) = service(&home, &yaml, config).await;
        Self { model, home, runs, store, yaml }
    }

    /// Another process of the same installation, as far as the database can tell. It dies with [`Process::kill`].
    pub(crate) async fn process(&self, config: RunsConfig) -> Process {
        let (home, yaml) = (self.home.path().to_owned(), self.yaml.clone());
        let made = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let (runs, _) = runtime.block_on(service_at(&home, &yaml, config));
            (runs, runtime)
        });
        let (runs, runtime) = made.join().unwrap();
        Process { runs, runtime }
    }

    pub(crate) async fn create(&self, request: CreateRun) -> RunRow {
        self.runs.create(&caller(), request).await.unwrap()
    }
    /// Creates a run and waits for its end.
    pub(crate) async fn ended(&self, request: CreateRun) -> RunRow {
        let row = self.create(request).await;
        self.runs.wait(&row.run_id).await.unwrap()
    }
    pub(crate) async fn head(&self, thread: &str) -> Checkpoint {
        self.store.load(&Lineage::root(thread_id(thread)), None).await.unwrap().unwrap()
    }
    /// Names of the frames that a reader from the start gets.
    pub(crate) async fn frames(&self, row: &RunRow) -> Vec<String> {
        let (run, thread) = (row.run_id.clone(), row.thread_id.clone());
        let mut items = self.runs.bridge().subscribe(self.store.clone(), run.clone(), thread.clone(), None);
        let mut views = Views::new([], RunView::new(run, thread));
        let mut names = Vec::new();
        while let Some(item) = items.next().await {
            names.extend(views.frames(&item).into_iter().map(|frame| frame.event));
        }
        names
    }
    /// The conversation, as `role: text`.
    pub(crate) async fn said(&self, thread: &str) -> Vec<String> {
        let head = self.head(thread).await;
        let shown =
            head.state.messages.iter().filter(|message| !message.flag(deerflow_core::message::kwargs::HIDE_FROM_UI));
        shown.map(|message| format!("{}: {}", message.role(), message.text())).collect()
    }
}

/// A service that can be killed without a word.
pub(crate) struct Process {
    pub(crate) runs: Runs<SqliteStore>,
    runtime: Runtime,
}

impl Process {
    /// Runs something in this process.
    pub(crate) async fn create(&self, request: CreateRun) -> RunRow {
        let runs = self.runs.clone();
        self.runtime.spawn(async move { runs.create(&caller(), request).await.unwrap() }).await.unwrap()
    }
    pub(crate) async fn recover(&self) -> usize {
        let runs = self.runs.clone();
        self.runtime.spawn(async move { runs.recover().await.unwrap() }).await.unwrap()
    }
    pub(crate) fn kill(self) {
        let Self { runs, runtime } = self;
        std::thread::spawn(move || runtime.shutdown_timeout(std::time::Duration::from_secs(5))).join().unwrap();
        drop(runs);
    }
}

async fn service(home: &TempHome, yaml: &str, config: RunsConfig) -> (Runs<SqliteStore>, Arc<SqliteStore>) {
    home.write("config.yaml", yaml);
    service_at(home.path(), yaml, config).await
}

async fn service_at(home: &std::path::Path, _yaml: &str, config: RunsConfig) -> (Runs<SqliteStore>, Arc<SqliteStore>) {
    let env = [("DEER_FLOW_HOME".to_owned(), home.display().to_string())];
    let loaded = Loader::new(assembly::sections()).env(env).cwd(home).file(home.join("config.yaml")).load().unwrap();
    let loaded = Arc::new(loaded);
    let store = assembly::open_store(&loaded).await.unwrap();
    let harness = assembly::harness(loaded, &store).await.unwrap();
    let lock = WorkerLock::acquire(home).unwrap();
    (Runs::new(store.clone(), harness, Bridge::default(), lock, config), store)
}

pub(crate) fn thread_id(thread: &str) -> ThreadId {
    ThreadId::parse(thread).unwrap()
}

pub(crate) fn caller() -> Caller {
    Caller { user_id: UserId::local(), principal: Principal::default() }
}

/// A run that begins with these words.
pub(crate) fn say(thread: &str, text: &str) -> CreateRun {
    CreateRun::new(thread_id(thread), RunInput::State(StateUpdate::messages([Message::human(text)])))
}

pub(crate) fn statuses(rows: &[RunRow]) -> Vec<RunStatus> {
    rows.iter().map(|row| row.status).collect()
}
