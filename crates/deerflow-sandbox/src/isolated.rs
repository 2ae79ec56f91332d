//! The `isolated` provider: each command in namespaces of its own.

mod client;
mod shell;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use self::client::LauncherClient;
use self::shell::IsolatedShell;
use crate::capability::{Capability, Tier};
use crate::config::SandboxConfig;
use crate::files::ThreadFiles;
use crate::local::LocalSandbox;
use crate::mask::PathMask;
use crate::protocol::{INSIDE_HOME, LAUNCHER_ARG, Setup};
use crate::sandbox::{ExecRequest, Sandbox, SandboxProvider};
use crate::{SandboxError, ThreadPaths};

/// How to start the launcher.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Program: a binary whose `main` calls [`crate::launcher_main`].
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl Launcher {
    /// This very binary.
    #[must_use]
    pub fn current() -> Self {
        Self::program("/proc/self/exe")
    }

    /// Another binary.
    #[must_use]
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: vec![LAUNCHER_ARG.into()] }
    }
}

/// Gives each thread an isolated computer.
pub struct IsolatedProvider {
    base: PathBuf,
    config: Arc<SandboxConfig>,
    /// Owner of the threads' files when the server is root.
    owner: Option<u32>,
    client: Arc<LauncherClient>,
    capability: Capability,
    sandboxes: Mutex<HashMap<(String, String), Weak<LocalSandbox<IsolatedShell>>>>,
}

impl std::fmt::Debug for IsolatedProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IsolatedProvider")
            .field("base", &self.base)
            .field("capability", &self.capability)
            .finish_non_exhaustive()
    }
}

impl IsolatedProvider {
    /// Starts the launcher and tries it. Where the kernel refuses, the provider still gives files, and its capability says
    /// why there are no commands.
    ///
    /// # Errors
    /// [`SandboxError::Config`]; failure to make the data directory.
    pub async fn start(base: &Path, config: SandboxConfig, launcher: Launcher) -> Result<Self, SandboxError> {
        config.validate()?;
        std::fs::create_dir_all(base).map_err(|error| SandboxError::system("making the data directory", &error))?;
        let base =
            std::fs::canonicalize(base).map_err(|error| SandboxError::system("finding the data directory", &error))?;
        let owner = rustix::process::geteuid().is_root().then_some(config.uid);
        let setup = setup(&base, &config, owner);
        let mut provider = Self {
            base,
            config: Arc::new(config),
            owner,
            client: Arc::new(LauncherClient::new(launcher, setup)),
            capability: Capability { tier: Tier::Namespaces, bash: true, reasons: Vec::new() },
            sandboxes: Mutex::new(HashMap::new()),
        };
        match provider.probe().await {
            Ok(degraded) => provider.capability.reasons = degraded,
            Err(error) => {
                tracing::warn!(%error, "the kernel refuses the sandbox; commands are withdrawn");
                provider.capability = Capability {
                    tier: Tier::None,
                    bash: false,
                    reasons: vec![format!("namespaces: {error}"), "bwrap: not used".to_owned()],
                };
            }
        }
        Ok(provider)
    }

    /// Runs `true` the way every command is run, in directories of its own.
    async fn probe(&self) -> Result<Vec<String>, SandboxError> {
        let degraded = self.client.ready().await?;
        let base = self.base.join(".sandbox-probe");
        let shell = self.sandbox_in(&base, "probe", "probe")?;
        let request = ExecRequest::new("test -w . && test -r /proc/self/status && test -d /usr/bin");
        let output = shell.shell.run(request, CancellationToken::new()).await;
        let _ = std::fs::remove_dir_all(&base);
        let output = output?;
        if output.success() {
            return Ok(degraded);
        }
        let message = format!("a trial command failed: {output:?}");
        Err(SandboxError::Launch { step: "trial".to_owned(), message })
    }

    fn sandbox(&self, user_id: &str, thread_id: &str) -> Result<Arc<LocalSandbox<IsolatedShell>>, SandboxError> {
        // Before the cache: the directories may have been deleted meanwhile.
        ThreadPaths::new(&self.base, user_id, thread_id)?.ensure_owned(self.owner)?;
        let key = (user_id.to_owned(), thread_id.to_owned());
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = sandboxes.get(&key).and_then(Weak::upgrade) {
            return Ok(sandbox);
        }
        sandboxes.retain(|_, sandbox| sandbox.strong_count() > 0);
        let sandbox = Arc::new(self.sandbox_in(&self.base, user_id, thread_id)?);
        sandboxes.insert(key, Arc::downgrade(&sandbox));
        Ok(sandbox)
    }

    fn sandbox_in(
        &self,
        base: &Path,
        user_id: &str,
        thread_id: &str,
    ) -> Result<LocalSandbox<IsolatedShell>, SandboxError> {
        let paths = ThreadPaths::new(base, user_id, thread_id)?;
        let files = Arc::new(ThreadFiles::new(&paths, &self.config, self.owner));
        let private = [(paths.home(), INSIDE_HOME), (paths.tmp(), "/tmp")];
        let private = private.map(|(host, shown)| (host.to_string_lossy().into_owned(), shown.to_owned()));
        let mask = PathMask::new(files.mounts(), &private);
        let shell = IsolatedShell::new(
            paths,
            Arc::clone(&files),
            Arc::clone(&self.config),
            Arc::clone(&self.client),
            self.owner,
        );
        Ok(LocalSandbox { id: format!("isolated:{user_id}:{thread_id}"), files, mask, shell })
    }
}

#[async_trait]
impl SandboxProvider for IsolatedProvider {
    fn name(&self) -> &'static str {
        "isolated"
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn file_owner(&self) -> Option<(u32, u32)> {
        self.owner.map(|uid| (uid, uid))
    }

    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let sandbox = self.sandbox(user_id, thread_id)?;
        if !self.capability.bash {
            sandbox.shell.withdraw(self.capability.reasons.clone());
        }
        Ok(sandbox)
    }
}

fn setup(base: &Path, config: &SandboxConfig, owner: Option<u32>) -> Setup {
    let custom = config.usable_mounts();
    let mut targets: Vec<String> =
        [crate::USER_DATA, crate::ACP_WORKSPACE, INSIDE_HOME, "/tmp"].into_iter().map(str::to_owned).collect();
    targets
        .extend(["public", "custom", "legacy", "integrations"].map(|category| format!("{}/{category}", crate::SKILLS)));
    targets.extend(custom.iter().map(|mount| mount.container_path.clone()));
    let mut keep_visible = vec![base.to_owned()];
    keep_visible.extend(custom.into_iter().map(|mount| mount.host_path));
    Setup { drop_to: owner, targets, keep_visible }
}
