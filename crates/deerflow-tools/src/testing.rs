//! A thread on a real sandbox in a temporary directory.

use crate::{BuiltinTools, ToolLimits, ToolSelection, builtin_tools};
use deerflow_core::{
    EventSink, JsonMap, RunId, ThreadId, ThreadState, Tool, ToolContext, ToolError, ToolOutput, UserId,
};
use deerflow_documents::Converter;
use deerflow_sandbox::{HostProvider, SandboxConfig, SandboxProvider, ThreadPaths};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const ALL: ToolSelection = ToolSelection { bash: true, vision: true, plan_mode: true, interactive: true };

/// A desk to try tools at.
pub(crate) struct Desk {
    base: tempfile::TempDir,
    paths: ThreadPaths,
    tools: BuiltinTools,
    pub(crate) ctx: ToolContext,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ToolLimits)) -> Self {
        let base = tempfile::tempdir().unwrap();
        let provider = Arc::new(HostProvider::new(base.path(), SandboxConfig::default()).unwrap());
        Self::on(base, provider, change)
    }

    pub(crate) fn on(
        base: tempfile::TempDir,
        provider: Arc<dyn SandboxProvider>,
        change: impl FnOnce(&mut ToolLimits),
    ) -> Self {
        let paths = ThreadPaths::new(base.path(), "u", "t").unwrap();
        paths.ensure().unwrap();
        let mut limits = ToolLimits::default();
        change(&mut limits);
        let ctx = ToolContext {
            user_id: UserId::parse("u").unwrap(),
            thread_id: ThreadId::parse("t").unwrap(),
            run_id: RunId::parse("r").unwrap(),
            call_id: "call_1".into(),
            call_index: 0,
            namespace: String::new(),
            cancel: CancellationToken::new(),
            state: Arc::default(),
            events: EventSink::none(),
        };
        Self { base, paths, tools: BuiltinTools::new(provider, limits, Converter::default()), ctx }
    }

    /// Host path of a file of the thread, named from `user-data`.
    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.paths.user_data().join(name)
    }

    /// Makes a file.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.host(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.host(name)).unwrap()
    }

    pub(crate) fn bench(&self) -> &Arc<crate::workbench::Workbench> {
        self.tools.bench()
    }

    pub(crate) fn state(&mut self) -> &mut ThreadState {
        Arc::make_mut(&mut self.ctx.state)
    }

    pub(crate) fn tools(&self, selection: &ToolSelection) -> Vec<Arc<dyn Tool>> {
        builtin_tools(&self.tools, selection)
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools(&ALL).into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    /// Calls a tool; no result names the host.
    pub(crate) async fn call(&self, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
        let result = self.tool(name).call(&self.ctx, map(args)).await;
        let seen = match &result {
            Ok(output) => format!(
                "{} {:?} {:?} {}",
                output.content.text(),
                output.artifact,
                output.additional_kwargs,
                serde_json::to_string(&output.update).unwrap()
            ),
            Err(error) => error.to_string(),
        };
        for host in [self.base.path().to_path_buf(), self.base.path().canonicalize().unwrap()] {
            assert!(!seen.contains(host.to_str().unwrap()), "host path in the result of {name}: {seen}");
        }
        result
    }

    /// The text of a call that succeeds.
    pub(crate) async fn ok(&self, name: &str, args: Value) -> String {
        self.call(name, args).await.unwrap().content.text().into_owned()
    }

    /// The text of a call that fails in a way the model can act on.
    pub(crate) async fn fail(&self, name: &str, args: Value) -> String {
        match self.call(name, args).await {
            Err(ToolError::Respond(text)) => text,
            other => panic!("{name} did not fail as it should: {other:?}"),
        }
    }
}

/// A JSON object as arguments.
pub(crate) fn map(args: Value) -> JsonMap {
    let Value::Object(map) = args else { panic!("arguments are an object") };
    map
}
