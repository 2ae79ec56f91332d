//! A gateway in this process, on a port of its own.

use deerflow::assembly;
use deerflow_config::Loader;
use deerflow_core::ports::{NewRun, RunRepo as _, Worker};
use deerflow_core::{RunId, StateUpdate, ThreadId, UserId};
use deerflow_gateway::{AppParts, AppState, Auth, Environment, Store, router, sections};
use deerflow_runtime::{Bridge, Runs, RunsConfig, WorkerLock};
use deerflow_testkit::{ScriptedModel, TempHome, temp_home};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Configuration of an installation with this model.
pub(crate) fn config(model: &ScriptedModel) -> String {
    format!(
        "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: {}\n    api_key: test-key-123456\n\
         sandbox:\n  use: host\n  allow_host_bash: true\nllm_call:\n  retry_base_delay_ms: 10\n  retry_cap_delay_ms: 20\n",
        model.base_url()
    )
}

/// A running gateway; it stops when dropped.
pub(crate) struct Gateway {
    pub(crate) url: String,
    pub(crate) model: ScriptedModel,
    pub(crate) store: Arc<Store>,
    pub(crate) home: TempHome,
    pub(crate) client: reqwest::Client,
    stop: CancellationToken,
    _task: JoinHandle<()>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// With further YAML. Without a word about `auth` in it nobody has to log in.
    pub(crate) async fn start_with(yaml: &str) -> Self {
        Self::start_in(yaml, &[]).await
    }

    /// With further YAML and variables for the login.
    #[expect(clippy::disallowed_methods, reason = "the task ends with the value that holds it")]
    pub(crate) async fn start_in(yaml: &str, variables: &[(&str, &str)]) -> Self {
        let auth = if yaml.contains("auth:") { "" } else { "auth:\n  enabled: false\n" };
        let model = ScriptedModel::start().await;
        let home = temp_home();
        let file = home.write("config.yaml", format!("{}{auth}{yaml}", config(&model)));
        let env = [("DEER_FLOW_HOME".to_owned(), home.path().display().to_string())];
        let config = Loader::new(sections(assembly::sections())).env(env).cwd(home.path()).file(file).load().unwrap();
        let config = Arc::new(config);
        let store = assembly::open_store(&config).await.unwrap();
        let stop = CancellationToken::new();
        let harness = assembly::harness(config.clone(), &store).await.unwrap();
        let lock = WorkerLock::acquire(home.path()).unwrap();
        let runs = Runs::new(store.clone(), harness.clone(), Bridge::default(), lock, RunsConfig::default());
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let auth = Arc::new(Auth::open(config.clone(), variables.collect::<Environment>()).await.unwrap());
        let parts = AppParts { config, store: store.clone(), harness, runs, auth, stop: stop.clone() };
        let app = router(AppState::new(parts));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = deerflow_gateway::serve(listener, app, Duration::from_secs(2), Duration::ZERO, stop.clone());
        let task = tokio::spawn(serving);
        let client = deerflow_net::http_client(&deerflow_net::HttpOptions::default()).unwrap();
        Self { url, model, store, home, client, stop, _task: task }
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.client.get(format!("{}{path}", self.url))).await
    }
    pub(crate) async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.client.put(format!("{}{path}", self.url)).json(body)).await
    }
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.client.patch(format!("{}{path}", self.url)).json(body)).await
    }
    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        answer(self.client.delete(format!("{}{path}", self.url))).await
    }
    /// Makes a thread with these messages and this title, in one write.
    pub(crate) async fn thread(&self, id: &str, values: Value) {
        let body = json!({"thread_id": id, "supersteps": [{"updates": [{"values": values, "as_node": "__end__"}]}]});
        let (status, made) = self.post("/api/threads", &body).await;
        assert_eq!(status, 200, "{made}");
    }
    /// Admits a run that nobody executes: the thread is busy from then on.
    pub(crate) async fn occupy(&self, id: &str) {
        let run = NewRun {
            run_id: RunId::random(),
            thread_id: ThreadId::parse(id).unwrap(),
            user_id: UserId::local(),
            worker: Worker { id: "w".into(), label: "a test".into() },
            input: StateUpdate::none(),
            options: json!({}),
            idempotency_key: None,
        };
        self.store.admit(run).await.unwrap();
    }
    /// The folder of a thread.
    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        self.home.path().join("users/default/threads").join(id)
    }
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.client.post(format!("{}{path}", self.url)).json(body)).await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Status and body; a body that is no JSON is a text.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
