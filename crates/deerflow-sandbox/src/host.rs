//! The `host` provider: commands on the bare machine, for trusted use only. There is no boundary here.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::capability::{Capability, MemoryLimit, Tier};
use crate::config::SandboxConfig;
use crate::egress::NetworkAccess;
use crate::exec::disk::DiskWatch;
use crate::exec::env;
use crate::exec::group::Group;
use crate::files::{MountTable, ThreadFiles};
use crate::local::{Folders, LocalSandbox, SandboxCache, Shell};
use crate::mask::{PathMask, replace_prefix};
use crate::sandbox::{ExecOutput, ExecRequest, Sandbox, SandboxProvider};
use crate::{SandboxError, ThreadPaths};

/// Runs commands on the host as the server's own user. Virtual paths in commands are translated, as a convenience.
pub struct HostProvider {
    base: PathBuf,
    config: Arc<SandboxConfig>,
    capability: Capability,
    sandboxes: SandboxCache<HostShell>,
}

impl std::fmt::Debug for HostProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostProvider").field("base", &self.base).finish_non_exhaustive()
    }
}

impl HostProvider {
    /// The provider over a data directory.
    ///
    /// # Errors
    /// [`SandboxError::Config`]; failure to make the data directory.
    pub fn new(base: &Path, config: SandboxConfig) -> Result<Self, SandboxError> {
        config.validate()?;
        std::fs::create_dir_all(base).map_err(|error| SandboxError::system("making the data directory", &error))?;
        let base =
            std::fs::canonicalize(base).map_err(|error| SandboxError::system("finding the data directory", &error))?;
        let reasons = vec!["asked for by name: commands run on the host without isolation".to_owned()];
        let memory = MemoryLimit::none("commands of the host provider have no limit");
        let capability = Capability { tier: Tier::Host, bash: true, reasons, memory };
        Ok(Self { base, config: Arc::new(config), capability, sandboxes: SandboxCache::default() })
    }
}

#[async_trait]
impl SandboxProvider for HostProvider {
    fn name(&self) -> &'static str {
        "host"
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn network(&self) -> NetworkAccess {
        NetworkAccess::Unconfined
    }

    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let paths = ThreadPaths::new(&self.base, user_id, thread_id)?;
        let make = |folders: Arc<Folders>| {
            let paths = folders.paths();
            let files = Arc::new(ThreadFiles::new(paths, &self.config, None));
            let mask = PathMask::new(files.mounts(), &[]);
            let disk = DiskWatch::new(paths.thread_dir(), &self.config);
            let id = format!("host:{}", paths.name());
            let shell = HostShell {
                folders: Arc::clone(&folders),
                files: Arc::clone(&files),
                mask: mask.clone(),
                config: Arc::clone(&self.config),
                disk,
            };
            LocalSandbox { id, folders, files, mask, shell }
        };
        Ok(self.sandboxes.get_or_make(Folders::new(paths, None, false), make)?)
    }
}

pub(crate) struct HostShell {
    folders: Arc<Folders>,
    files: Arc<ThreadFiles>,
    mask: PathMask,
    config: Arc<SandboxConfig>,
    disk: DiskWatch,
}

#[async_trait]
impl Shell for HostShell {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        self.folders.ensure()?;
        let timeout = request.timeout.unwrap_or_else(|| self.config.command_timeout());
        let group = Group::spawn(self.command(&request)?, self.config.capture_kb * 1024)?;
        let mut output = group.finish(timeout, &cancel, &self.disk).await;
        output.stdout = self.mask.apply(&output.stdout);
        output.stderr = self.mask.apply(&output.stderr);
        // A command may be too short to be seen while it runs.
        if output.limit_hit.is_none() {
            output.limit_hit = self.disk.after().await;
        }
        output.duration = started.elapsed();
        Ok(output)
    }
}

impl HostShell {
    fn command(&self, request: &ExecRequest) -> Result<Command, SandboxError> {
        let table = self.files.mounts();
        let cwd = match &request.cwd {
            Some(path) => PathBuf::from(to_host(table, path.as_str())),
            None => self.folders.paths().workspace(),
        };
        let (home, tmp) = (self.folders.paths().home(), self.folders.paths().tmp());
        let env = env::build(&home.to_string_lossy(), &tmp.to_string_lossy(), &self.config.environment, &request.env)?;
        let shells = ["/bin/bash", "/usr/bin/bash"];
        let shell = shells.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh");
        let mut command = Command::new(shell);
        command
            .arg("-c")
            .arg(to_host(table, &request.command))
            .env_clear()
            .envs(env)
            .current_dir(cwd)
            .stdin(Stdio::null());
        Ok(command)
    }
}

/// Virtual paths in a text become host paths, longest first.
fn to_host(table: &MountTable, text: &str) -> String {
    table.iter().fold(text.to_owned(), |text, mount| match mount.host.to_str() {
        Some(host) if text.contains(&mount.prefix) => replace_prefix(&text, &mount.prefix, host),
        _ => text,
    })
}
