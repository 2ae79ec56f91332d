//! The `isolated` provider: each command in namespaces of its own.

mod bwrap;
mod client;
mod network;
mod parking;
mod plain;
mod running;
mod shell;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::bwrap::Bwrap;
use self::client::LauncherClient;
use self::parking::Parking;
use self::plain::PlainLauncher;
use self::shell::{Engine, IsolatedShell};
use crate::capability::{Capability, MemoryBy, MemoryLimit, Tier};
use crate::cgroup::Cgroups;
use crate::config::SandboxConfig;
use crate::egress::{Egress, NetworkAccess};
use crate::files::ThreadFiles;
use crate::local::{Folders, LocalSandbox, SandboxCache, Shell};
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
    /// The `bwrap` program to fall back to; `None` is where the system has it, an absent file is no fallback. `program` is
    /// needed in it, too, where commands have a network.
    pub bwrap: Option<PathBuf>,
    /// Try namespaces. Without, it is as if the kernel refused them.
    pub namespaces: bool,
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
        Self { program: program.into(), args: vec![LAUNCHER_ARG.into()], bwrap: None, namespaces: true }
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
    parking: Arc<Parking>,
    /// Ends what waits in vain; nothing waits without it.
    _tending: JoinSet<()>,
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
        for tier in [Tier::Namespaces, Tier::Bwrap, Tier::Landlock] {
            match Self::try_tier(tier, &base, &config, owner, egress.as_ref(), &launcher).await {
                Ok((engine, degraded, memory)) => {
                    reasons.extend(degraded);
                    let capability = Capability { tier, bash: true, reasons, memory };
                    return Ok(Self::new(base, config, owner, engine, egress, capability));
                }
                Err(error) => reasons.push(format!("{}: {error}", tier.as_str())),
            }
        }
        tracing::warn!(?reasons, "no isolation is possible here; commands are withdrawn");
        let memory = MemoryLimit::none("there are no commands");
        let capability = Capability { tier: Tier::None, bash: false, reasons: reasons.clone(), memory };
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
        let parking = Arc::new(Parking::new(Duration::from_secs(config.keep_seconds)));
        let mut tending = JoinSet::new();
        tending.spawn(Arc::clone(&parking).tend());
        Self {
            base,
            config,
            owner,
            engine: Arc::new(engine),
            egress,
            capability,
            sandboxes: SandboxCache::default(),
            _tending: tending,
            parking,
        }
    }

    /// A tier that has run a trial command, what it lacks, and what limits its memory.
    async fn try_tier(
        tier: Tier,
        base: &Path,
        config: &Arc<SandboxConfig>,
        owner: Option<u32>,
        egress: Option<&Arc<Egress>>,
        launcher: &Launcher,
    ) -> Result<(Engine, Vec<String>, MemoryLimit), SandboxError> {
        let rlimits = |reason: String| match config.memory_mb {
            0 => MemoryLimit::none("sandbox.memory_mb is 0"),
            _ => MemoryLimit { by: MemoryBy::Rlimits, reason },
        };
        let refused =
            |message: &str| SandboxError::Launch { step: tier.as_str().to_owned(), message: message.to_owned() };
        if tier == Tier::Landlock {
            if !config.accept_landlock {
                return Err(refused("not accepted; hint: sandbox.accept_landlock, after reading what it lacks"));
            }
            if egress.is_some() {
                return Err(refused("without a network namespace nothing keeps commands to sandbox.network.allow"));
            }
            let mut plain = PlainLauncher::find(launcher, owner)?;
            let lacks = plain.lacks();
            let memory = match tokio::task::spawn_blocking(Cgroups::of_this_process).await {
                Ok(Ok(cgroups)) => {
                    plain.cgroups = Some(Arc::new(cgroups));
                    MemoryLimit { by: MemoryBy::Cgroup, reason: String::new() }
                }
                Ok(Err(reason)) => rlimits(reason),
                Err(error) => rlimits(error.to_string()),
            };
            if owner.is_some() {
                crate::thread_paths::pass_through(base)
                    .map_err(|errno| SandboxError::system("opening the data directory", &errno.into()))?;
            }
            let engine = trial(Engine::Plain(plain), base, config, owner, egress).await.map_err(|error| match owner {
                Some(uid) => refused(&format!(
                    "{error}; hint: every directory above the data directory must let user {uid} (sandbox.uid) through"
                )),
                None => error,
            })?;
            return Ok((engine, lacks, memory));
        }
        if tier == Tier::Bwrap {
            if owner.is_some() {
                return Err(refused("not used as root: the dedicated user could not reach the data"));
            }
            let helper = egress.map(|_| launcher.program.as_path());
            let bwrap = Bwrap::find(launcher.bwrap.as_deref(), base, helper)?;
            let engine = trial(Engine::Bwrap(bwrap), base, config, owner, egress).await?;
            let degraded = vec!["bwrap: without the own system call filter and landlock".to_owned()];
            return Ok((engine, degraded, rlimits("not used with bwrap".to_owned())));
        }
        if !launcher.namespaces {
            return Err(refused("switched off"));
        }
        let client = Arc::new(LauncherClient::new(launcher.clone(), setup(base, config, owner)));
        let degraded = client.ready().await?;
        // Looked for last: this may move the server's process.
        let reason = match tokio::task::spawn_blocking(Cgroups::of_this_process).await {
            Ok(Ok(cgroups)) => {
                let engine = Engine::Launcher(Arc::clone(&client), Some(Arc::new(cgroups)));
                match trial(engine, base, config, owner, egress).await {
                    Ok(engine) => {
                        let by = if config.memory_mb == 0 { MemoryBy::None } else { MemoryBy::Cgroup };
                        return Ok((engine, degraded, MemoryLimit { by, reason: String::new() }));
                    }
                    Err(error) => format!("a trial in a cgroup failed: {error}"),
                }
            }
            Ok(Err(reason)) => reason,
            Err(error) => error.to_string(),
        };
        let engine = trial(Engine::Launcher(client, None), base, config, owner, egress).await?;
        Ok((engine, degraded, rlimits(reason)))
    }
}

/// The engine again, when it has run a trial command.
async fn trial(
    engine: Engine,
    base: &Path,
    config: &Arc<SandboxConfig>,
    owner: Option<u32>,
    egress: Option<&Arc<Egress>>,
) -> Result<Engine, SandboxError> {
    // Two servers may start over one directory.
    let trial = base.join(format!(".sandbox-trial-{}", std::process::id()));
    let paths = ThreadPaths::new(&trial, "trial", "trial")?;
    let walled = !matches!(engine, Engine::Plain(_));
    let engine = Arc::new(engine);
    let folders = Arc::new(Folders::new(paths, owner, !walled));
    // Nothing of the trial stays behind.
    let parking = Arc::new(Parking::new(Duration::ZERO));
    let output = folders.ensure().map(|()| sandbox(folders, config, &engine, parking, egress.cloned()));
    let output = match output {
        Ok(sandbox) => {
            // The root has nothing to list, if it is the host's.
            let closed = if walled { "" } else { " && ! ls / 2>/dev/null" };
            let request =
                ExecRequest::new(format!("test -w . && test -r /proc/self/status && test -d /usr/bin{closed}"));
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
    Arc::into_inner(engine).ok_or_else(lost)
}

/// The sandbox of a thread whose directories are there.
fn sandbox(
    folders: Arc<Folders>,
    config: &Arc<SandboxConfig>,
    engine: &Arc<Engine>,
    parking: Arc<Parking>,
    egress: Option<Arc<Egress>>,
) -> LocalSandbox<IsolatedShell> {
    let paths = folders.paths();
    let files = Arc::new(ThreadFiles::new(paths, config, folders.owner()));
    let private = [(paths.home(), INSIDE_HOME), (paths.tmp(), "/tmp")];
    let private = private.map(|(host, shown)| (host.to_string_lossy().into_owned(), shown.to_owned()));
    let mask = PathMask::new(files.mounts(), &private);
    let id = format!("isolated:{}", paths.name());
    let (config, engine) = (Arc::clone(config), Arc::clone(engine));
    let shell =
        IsolatedShell::new(Arc::clone(&folders), Arc::clone(&files), config, engine, parking, egress, mask.clone());
    LocalSandbox { id, folders, files, mask, shell }
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
        let make =
            |folders| sandbox(folders, &self.config, &self.engine, Arc::clone(&self.parking), self.egress.clone());
        let reach = self.capability.tier == Tier::Landlock;
        Ok(self.sandboxes.get_or_make(Folders::new(paths, self.owner, reach), make)?)
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
