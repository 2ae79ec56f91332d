//! The `isolated` provider: each command in namespaces of its own.

mod bwrap;
mod client;
mod shell;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use self::bwrap::Bwrap;
use self::client::LauncherClient;
use self::shell::{Engine, IsolatedShell};
use crate::capability::{Capability, Tier};
use crate::config::SandboxConfig;
use crate::egress::{Egress, NetworkAccess};
use crate::files::ThreadFiles;
use crate::local::{LocalSandbox, SandboxCache, Shell};
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
    /// The `bwrap` program to fall back to (in which `program` is then needed for the network); `None` is where the system has it, an absent file is no fallback.
    pub bwrap: Option<PathBuf>,
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
        Self { program: program.into(), args: vec![LAUNCHER_ARG.into()], bwrap: None }
    }
}

/// Gives each thread an isolated computer.
pub struct IsolatedProvider {
    base: PathBuf,
    config: Arc<SandboxConfig>,
    /// Owner of the threads' files when the server is root.
    owner: Option<u32>,
    engine: Arc<Engine>,
    /// Rules of the network; `None` where it is off.
    egress: Option<Arc<Egress>>,
    capability: Capability,
    sandboxes: SandboxCache<IsolatedShell>,
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
        let owner = config.file_owner();
        let egress = Egress::new(&config.network)?;
        let config = Arc::new(config);
        let mut reasons = Vec::new();
        for tier in [Tier::Namespaces, Tier::Bwrap] {
            match Self::try_tier(tier, &base, &config, owner, &egress, &launcher).await {
                Ok((engine, degraded)) => {
                    reasons.extend(degraded);
                    let capability = Capability { tier, bash: true, reasons };
                    return Ok(Self::new(base, config, owner, engine, egress, capability));
                }
                Err(error) => reasons.push(format!("{}: {error}", tier.as_str())),
            }
        }
        tracing::warn!(?reasons, "no isolation is possible here; commands are withdrawn");
        let capability = Capability { tier: Tier::None, bash: false, reasons: reasons.clone() };
        Ok(Self::new(base, config, owner, Engine::Withdrawn(reasons), egress, capability))
    }

    fn new(
        base: PathBuf,
        config: Arc<SandboxConfig>,
        owner: Option<u32>,
        engine: Engine,
        egress: Option<Arc<Egress>>,
        capability: Capability,
    ) -> Self {
        Self { base, config, owner, engine: Arc::new(engine), egress, capability, sandboxes: SandboxCache::default() }
    }

    /// A tier that has run a trial command, and what it lacks.
    async fn try_tier(
        tier: Tier,
        base: &Path,
        config: &Arc<SandboxConfig>,
        owner: Option<u32>,
        egress: &Option<Arc<Egress>>,
        launcher: &Launcher,
    ) -> Result<(Engine, Vec<String>), SandboxError> {
        let (engine, degraded) = match tier {
            Tier::Bwrap => {
                if owner.is_some() {
                    let message = "not used as root: the dedicated user could not reach the data".to_owned();
                    return Err(SandboxError::Launch { step: "bwrap".to_owned(), message });
                }
                let helper = egress.is_some().then_some(launcher.program.as_path());
                let bwrap = Bwrap::find(launcher.bwrap.as_deref(), base, helper)?;
                (Engine::Bwrap(bwrap), vec!["bwrap: without the own system call filter and landlock".to_owned()])
            }
            _ => {
                let client = Arc::new(LauncherClient::new(launcher.clone(), setup(base, config, owner)));
                let degraded = client.ready().await?;
                (Engine::Launcher(client), degraded)
            }
        };
        let engine = Arc::new(engine);
        // Two servers may start over one directory.
        let trial = base.join(format!(".sandbox-trial-{}", std::process::id()));
        let paths = ThreadPaths::new(&trial, "trial", "trial")?;
        let output = paths.ensure_owned(owner).map(|()| sandbox(paths, config, &engine, owner, egress));
        let output = match output {
            Ok(sandbox) => {
                let request = ExecRequest::new("test -w . && test -r /proc/self/status && test -d /usr/bin");
                sandbox.shell.execute(request, CancellationToken::new()).await
            }
            Err(error) => Err(error),
        };
        let _ = std::fs::remove_dir_all(&trial);
        let output = output?;
        if !output.success() {
            let message = format!("a trial command failed: {}{}", output.stdout, output.stderr);
            return Err(SandboxError::Launch { step: "trial".to_owned(), message });
        }
        // Without this a command would have no network at all, and nothing would say so.
        if egress.is_some() && output.network.is_none() {
            let message = "a trial command had no way to the proxy".to_owned();
            return Err(SandboxError::Launch { step: "network".to_owned(), message });
        }
        // The trial's sandbox is gone, so this is the only holder.
        let lost = || SandboxError::Launch { step: "trial".to_owned(), message: "still in use".to_owned() };
        Ok((Arc::into_inner(engine).ok_or_else(lost)?, degraded))
    }
}

/// The sandbox of a thread whose directories are there.
fn sandbox(
    paths: ThreadPaths,
    config: &Arc<SandboxConfig>,
    engine: &Arc<Engine>,
    owner: Option<u32>,
    egress: &Option<Arc<Egress>>,
) -> LocalSandbox<IsolatedShell> {
    let files = Arc::new(ThreadFiles::new(&paths, config, owner));
    let private = [(paths.home(), INSIDE_HOME), (paths.tmp(), "/tmp")];
    let private = private.map(|(host, shown)| (host.to_string_lossy().into_owned(), shown.to_owned()));
    let mask = PathMask::new(files.mounts(), &private);
    let id = format!("isolated:{}", paths.name());
    let shell =
        IsolatedShell::new(paths, Arc::clone(&files), Arc::clone(config), Arc::clone(engine), owner, egress.clone());
    LocalSandbox { id, files, mask, shell }
}

#[async_trait]
impl SandboxProvider for IsolatedProvider {
    fn name(&self) -> &'static str {
        "isolated"
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn network(&self) -> NetworkAccess {
        self.config.network.access()
    }

    fn file_owner(&self) -> Option<(u32, u32)> {
        self.owner.map(|uid| (uid, uid))
    }

    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let paths = ThreadPaths::new(&self.base, user_id, thread_id)?;
        // Even for a sandbox that is known: the directories may have been deleted meanwhile.
        paths.ensure_owned(self.owner)?;
        let name = paths.name();
        Ok(self.sandboxes.get_or_make(name, || sandbox(paths, &self.config, &self.engine, self.owner, &self.egress)))
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
