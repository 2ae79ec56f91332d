//! A provider over a temporary data directory.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deerflow_sandbox::{ExecOutput, ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider};
use tokio_util::sync::CancellationToken;

/// Where the second run, as an ordinary user, finds the launcher.
pub(crate) const LAUNCHER_VARIABLE: &str = "DEERFLOW_TEST_LAUNCHER";

/// A data directory, its provider, one thread.
pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) provider: Arc<IsolatedProvider>,
    pub(crate) sandbox: Arc<dyn Sandbox>,
}

pub(crate) fn launcher() -> Launcher {
    match std::env::var_os(LAUNCHER_VARIABLE) {
        Some(program) => Launcher::program(program),
        None => Launcher::program(env!("CARGO_BIN_EXE_deerflow-sandbox-launch")),
    }
}

/// The defaults, without a reserve that a full test machine could hit.
pub(crate) fn config() -> SandboxConfig {
    SandboxConfig { min_free_mb: 1, ..SandboxConfig::default() }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Where the kernel refuses the sandbox, tests fail, unless this is said to be expected.
pub(crate) fn refusal_is_expected() -> bool {
    std::env::var_os("DEERFLOW_TEST_ALLOW_NO_NAMESPACES").is_some()
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: SandboxConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // As a service run by root has it: nobody else gets through.
        std::fs::create_dir(dir.path().join("private")).unwrap();
        std::fs::set_permissions(dir.path().join("private"), PermissionsExt::from_mode(0o700)).unwrap();
        let base = dir.path().join("private/data");
        let provider = Arc::new(IsolatedProvider::start(&base, config, launcher()).await.unwrap());
        let capability = provider.capability();
        if !capability.bash && refusal_is_expected() {
            eprintln!("SKIPPED: this kernel refuses the sandbox: {:?}", capability.reasons);
            std::process::exit(0);
        }
        assert!(capability.bash, "this kernel refuses the sandbox: {:?}", capability.reasons);
        let sandbox = provider.acquire("alice", "t1").await.unwrap();
        Self { dir, provider, sandbox }
    }

    /// Host directory of the thread.
    pub(crate) fn thread_dir(&self) -> PathBuf {
        self.dir.path().join("private/data/users/alice/threads/t1")
    }

    /// Host directory of the thread's files.
    pub(crate) fn user_data(&self) -> PathBuf {
        self.thread_dir().join("user-data")
    }

    pub(crate) async fn run(&self, command: &str) -> ExecOutput {
        self.sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap()
    }

    /// The same as a future of its own.
    pub(crate) fn run_owned(&self, command: String) -> impl Future<Output = ExecOutput> + Send + 'static {
        let sandbox = Arc::clone(&self.sandbox);
        async move { sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap() }
    }

    /// Output of a command that must succeed.
    pub(crate) async fn ok(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.success(), "{command}: {output:?}");
        output.stdout
    }

    /// Runs Python in the sandbox; its output.
    pub(crate) async fn python(&self, program: &str) -> String {
        std::fs::write(self.user_data().join("workspace/program.py"), program).unwrap();
        let output = self.run("python3 program.py").await;
        assert!(output.success(), "{program}: {output:?}");
        output.stdout
    }

    /// Waits until a file of the workspace exists (a command has come so far).
    pub(crate) async fn wait_for(&self, name: &str) {
        let path = self.user_data().join("workspace").join(name);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !path.exists() {
            assert!(Instant::now() < deadline, "{name} never appeared");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Host processes, other than this, whose command line contains `mark`: their command lines.
pub(crate) fn processes_with(mark: &str) -> Vec<String> {
    matching(mark).into_iter().map(|(_, line)| line).collect()
}

/// The same: their ids.
pub(crate) fn pids_with(mark: &str) -> Vec<i32> {
    matching(mark).into_iter().map(|(pid, _)| pid).collect()
}

fn matching(mark: &str) -> Vec<(i32, String)> {
    let own = i32::try_from(std::process::id()).unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).filter(|pid| *pid != own);
    pids.filter_map(|pid| {
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        text.contains(mark).then_some((pid, text))
    })
    .collect()
}
