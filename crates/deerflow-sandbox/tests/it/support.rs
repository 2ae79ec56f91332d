//! A provider over a temporary data directory.

use std::path::PathBuf;
use std::sync::Arc;

use deerflow_sandbox::{ExecOutput, ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider};
use tokio_util::sync::CancellationToken;

/// A data directory, its provider, one thread.
pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) provider: Arc<IsolatedProvider>,
    pub(crate) sandbox: Arc<dyn Sandbox>,
}

pub(crate) fn launcher() -> Launcher {
    Launcher::program(env!("CARGO_BIN_EXE_deerflow-sandbox-launch"))
}

/// Limits small enough to be reached in a test.
pub(crate) fn config() -> SandboxConfig {
    SandboxConfig { min_free_mb: 1, ..SandboxConfig::default() }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: SandboxConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // As a service run by root has it: nobody else gets through.
        std::fs::create_dir(dir.path().join("private")).unwrap();
        std::fs::set_permissions(dir.path().join("private"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let base = dir.path().join("private/data");
        let provider = Arc::new(IsolatedProvider::start(&base, config, launcher()).await.unwrap());
        let capability = provider.capability();
        assert!(capability.bash, "this kernel refuses the sandbox: {:?}", capability.reasons);
        let sandbox = provider.acquire("alice", "t1").await.unwrap();
        Self { dir, provider, sandbox }
    }

    /// Host directory of the thread's files.
    pub(crate) fn user_data(&self) -> PathBuf {
        self.dir.path().join("private/data/users/alice/threads/t1/user-data")
    }

    pub(crate) async fn run(&self, command: &str) -> ExecOutput {
        self.sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap()
    }

    /// Output of a command that must succeed.
    pub(crate) async fn ok(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.success(), "{command}: {output:?}");
        output.stdout
    }
}
