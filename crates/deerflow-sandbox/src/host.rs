//! The `host` provider: commands on the bare machine, for trusted use only. There is no boundary here.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::capability::{Capability, Tier};
use crate::config::SandboxConfig;
use crate::exec::capture::Output;
use crate::exec::disk::DiskWatch;
use crate::exec::env;
use crate::files::{MountTable, ThreadFiles};
use crate::local::{LocalSandbox, Shell};
use crate::mask::{PathMask, replace_prefix};
use crate::sandbox::{ExecOutput, ExecRequest, LimitHit, Sandbox, SandboxProvider};
use crate::{SandboxError, ThreadPaths};

/// How long output is awaited after the shell has exited, while a background process holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);

/// Runs commands on the host as the server's own user. Virtual paths in commands are translated, as a convenience.
pub struct HostProvider {
    base: PathBuf,
    config: Arc<SandboxConfig>,
    capability: Capability,
    sandboxes: Mutex<HashMap<(String, String), Weak<LocalSandbox<HostShell>>>>,
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
        let capability = Capability { tier: Tier::Host, bash: true, reasons };
        Ok(Self { base, config: Arc::new(config), capability, sandboxes: Mutex::new(HashMap::new()) })
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

    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let paths = ThreadPaths::new(&self.base, user_id, thread_id)?;
        paths.ensure()?;
        let key = (user_id.to_owned(), thread_id.to_owned());
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = sandboxes.get(&key).and_then(Weak::upgrade) {
            return Ok(sandbox);
        }
        sandboxes.retain(|_, sandbox| sandbox.strong_count() > 0);
        let files = Arc::new(ThreadFiles::new(&paths, &self.config, None));
        let mask = PathMask::new(files.mounts(), &[]);
        let disk = DiskWatch::new(paths.thread_dir(), &self.config);
        let shell =
            HostShell { paths, files: Arc::clone(&files), mask: mask.clone(), config: Arc::clone(&self.config), disk };
        let sandbox = Arc::new(LocalSandbox { id: format!("host:{user_id}:{thread_id}"), files, mask, shell });
        sandboxes.insert(key, Arc::downgrade(&sandbox));
        Ok(sandbox)
    }
}

pub(crate) struct HostShell {
    paths: ThreadPaths,
    files: Arc<ThreadFiles>,
    mask: PathMask,
    config: Arc<SandboxConfig>,
    disk: DiskWatch,
}

#[async_trait]
impl Shell for HostShell {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        self.paths.ensure()?;
        let timeout = request.timeout.unwrap_or_else(|| self.config.command_timeout());
        let mut running = self.spawn(&request)?;
        let ended = tokio::select! {
            () = running.until_exit() => Ended::Exit,
            () = cancel.cancelled() => Ended::Cancelled,
            () = tokio::time::sleep(timeout) => Ended::Timeout,
            limit = self.disk.exceeded() => Ended::Limit(limit),
        };
        let mut output = running.end(ended).await;
        output.stdout = self.mask.apply(&output.stdout);
        output.stderr = self.mask.apply(&output.stderr);
        output.duration = started.elapsed();
        Ok(output)
    }
}

impl HostShell {
    fn spawn(&self, request: &ExecRequest) -> Result<Running, SandboxError> {
        let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
        let table = self.files.mounts();
        let cwd = match &request.cwd {
            Some(path) => PathBuf::from(to_host(table, path.as_str())),
            None => self.paths.workspace(),
        };
        let env = env::build(
            &self.paths.home().to_string_lossy(),
            &self.paths.tmp().to_string_lossy(),
            &self.config.environment,
            &request.env,
        )?;
        let env: BTreeMap<String, String> = env.into_iter().collect();
        let (out, out_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        let (err, err_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        let shell =
            ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh");
        let child = Command::new(shell)
            .arg("-c")
            .arg(to_host(table, &request.command))
            .env_clear()
            .envs(&env)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::from(out_writer))
            .stderr(Stdio::from(err_writer))
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(system)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let limit = self.config.capture_kb * 1024;
        let (stdout, stderr) = (Output::new(out, limit).map_err(system)?, Output::new(err, limit).map_err(system)?);
        Ok(Running { child, group, stdout, stderr, status: None })
    }
}

/// Virtual paths in a text become host paths, longest first.
fn to_host(table: &MountTable, text: &str) -> String {
    table.iter().fold(text.to_owned(), |text, mount| match mount.host.to_str() {
        Some(host) if text.contains(&mount.prefix) => replace_prefix(&text, &mount.prefix, host),
        _ => text,
    })
}

enum Ended {
    Exit,
    Timeout,
    Cancelled,
    Limit(LimitHit),
}

struct Running {
    child: tokio::process::Child,
    group: Option<Pid>,
    stdout: Output,
    stderr: Output,
    status: Option<std::process::ExitStatus>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
    }
}

impl Running {
    /// Reads output until the shell itself has exited.
    async fn until_exit(&mut self) {
        while self.status.is_none() {
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
                status = self.child.wait() => self.status = status.ok().or(Some(std::process::ExitStatus::from_raw(0xff00))),
            }
        }
    }

    fn kill_group(&self) {
        if let Some(group) = self.group {
            // ESRCH: all of it is gone.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    async fn end(mut self, ended: Ended) -> ExecOutput {
        if matches!(ended, Ended::Exit) {
            let _ = tokio::time::timeout(DRAIN, self.read_rest()).await;
        }
        self.kill_group();
        if self.status.is_none() {
            self.status = self.child.wait().await.ok();
        }
        let _ = tokio::time::timeout(DRAIN, self.read_rest()).await;
        let status = self.status;
        let mut output = ExecOutput::default();
        match ended {
            Ended::Exit => {
                output.exit_code = status.and_then(|status| status.code());
                output.signal = status.and_then(|status| status.signal());
            }
            Ended::Timeout => output.timed_out = true,
            Ended::Cancelled => output.cancelled = true,
            Ended::Limit(limit) => output.limit_hit = Some(limit),
        }
        self.stdout.drain();
        self.stderr.drain();
        (output.stdout, output.stdout_cut) = self.stdout.take().finish();
        (output.stderr, output.stderr_cut) = self.stderr.take().finish();
        output
    }

    async fn read_rest(&mut self) {
        while self.stdout.is_open() || self.stderr.is_open() {
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
            }
        }
    }
}
