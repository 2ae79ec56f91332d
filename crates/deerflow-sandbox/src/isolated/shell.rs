//! One command in the isolated computer: from request to the death of its last process.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use tokio_util::sync::CancellationToken;

use super::bwrap::Bwrap;
use super::client::{LauncherClient, launch_error};
use super::parking::{Identity, Parking, Shape, Shown};
use super::running::Running;
use crate::config::SandboxConfig;
use crate::exec::disk::DiskWatch;
use crate::exec::env;
use crate::exec::group::Group;
use crate::files::{Access, ThreadFiles};
use crate::local::{Folders, Shell};
use crate::protocol::{Ask, Failure, INSIDE_HOME, Job, JobMount, Limits, Source};
use crate::sandbox::{ExecOutput, ExecRequest, LimitHit};
use crate::{SandboxError, WORKSPACE};

/// Longest command: the kernel's limit for one argument, less some.
const MAX_COMMAND: usize = 128 * 1024 - 64;
const EXIT_FILE_SIZE: i32 = 128 + libc::SIGXFSZ;

pub(crate) struct IsolatedShell {
    /// Name of the thread for the launcher.
    thread: String,
    folders: Arc<Folders>,
    files: Arc<ThreadFiles>,
    config: Arc<SandboxConfig>,
    engine: Arc<Engine>,
    /// Where the launcher's sandboxes wait between commands.
    parking: Arc<Parking>,
    disk: DiskWatch,
}

/// What runs the commands of a provider.
pub(super) enum Engine {
    /// Own launcher.
    Launcher(Arc<LauncherClient>),
    /// The `bwrap` program.
    Bwrap(Bwrap),
    /// Nothing, for these reasons.
    Withdrawn(Vec<String>),
}

impl IsolatedShell {
    pub(super) fn new(
        folders: Arc<Folders>,
        files: Arc<ThreadFiles>,
        config: Arc<SandboxConfig>,
        engine: Arc<Engine>,
        parking: Arc<Parking>,
    ) -> Self {
        let disk = DiskWatch::new(folders.paths().thread_dir(), &config);
        let thread = folders.paths().name();
        Self { thread, folders, files, config, engine, parking, disk }
    }

    async fn run(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        // A command may have removed its directories.
        self.folders.ensure()?;
        let only_make_room = self.disk.is_over().await;
        let mut output = match &*self.engine {
            Engine::Withdrawn(reasons) => return Err(SandboxError::ShellUnavailable { reasons: reasons.clone() }),
            Engine::Bwrap(bwrap) => {
                let (timeout, shape) = (self.timeout(&request), self.shape(only_make_room)?);
                let job = self.job(request, &shape)?;
                let group = Group::spawn(bwrap.command(&job, &shape.mounts), self.capture())?;
                group.finish(timeout, &cancel, &self.disk).await
            }
            Engine::Launcher(client) => self.launch(client, request, &cancel, only_make_room).await?,
        };
        if output.exit_code == Some(EXIT_FILE_SIZE) || output.signal == Some(libc::SIGXFSZ) {
            output.limit_hit = Some(LimitHit::FileSize);
        }
        // A command may be too short to be seen while it runs.
        if matches!(output.limit_hit, None | Some(LimitHit::FileSize))
            && let Some(hit) = self.disk.after().await
        {
            output.limit_hit = Some(hit);
        }
        output.duration = started.elapsed();
        Ok(output)
    }

    /// Runs a command in a sandbox of this thread that waits, or else in a new one.
    async fn launch(
        &self,
        client: &Arc<LauncherClient>,
        request: ExecRequest,
        cancel: &CancellationToken,
        only_make_room: bool,
    ) -> Result<ExecOutput, SandboxError> {
        let timeout = self.timeout(&request);
        let shape = self.shape(only_make_room)?;
        let mut job = self.job(request, &shape)?;
        let mut finished = None;
        while finished.is_none()
            && let Some(control) = self.parking.take(&self.thread, &shape)
        {
            // `None`: it died while it waited, and never took the job.
            finished =
                Running::hand_over(control, &job, self.capture()).await?.finish(timeout, cancel, &self.disk).await?;
        }
        if finished.is_none() {
            let mount = |shown: &Shown| JobMount { target: shown.target.clone(), read_only: shown.read_only };
            job.mounts = shape.mounts.iter().map(mount).collect();
            let (sources, passed) = sources(&shape, self.folders.owner().is_some())?;
            let ask = Ask { thread: self.thread.clone(), sources };
            // Should the launcher die before it took the job, which then never ran, the next one may have it.
            for _ in 0..2 {
                let running = Running::start(client, &ask, &job, &passed, self.capture()).await?;
                finished = running.finish(timeout, cancel, &self.disk).await?;
                if finished.is_some() {
                    break;
                }
            }
        }
        let lost = || launch_error(&Failure::new("starting the command", "the launcher died twice"));
        let finished = finished.ok_or_else(lost)?;
        if let Some(control) = finished.ready {
            self.parking.put(&self.thread, shape, control);
        }
        Ok(finished.output)
    }

    fn timeout(&self, request: &ExecRequest) -> std::time::Duration {
        request.timeout.unwrap_or_else(|| self.config.command_timeout())
    }

    fn capture(&self) -> u64 {
        self.config.capture_kb * 1024
    }

    /// What a sandbox for a command of this thread consists of now. With `only_make_room`, no file can grow in it, but any
    /// can be removed or cut.
    fn shape(&self, only_make_room: bool) -> Result<Shape, SandboxError> {
        let paths = self.folders.paths();
        let mut mounts = Vec::new();
        let mut add = |target: &str, host: &Path, read_only: bool| -> Result<(), SandboxError> {
            match Identity::of(host) {
                Ok(identity) => {
                    mounts.push(Shown { target: target.to_owned(), host: host.to_owned(), read_only, identity })
                }
                // Skills and custom mounts may not be there.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(SandboxError::io("mounting", target, &error)),
            }
            Ok(())
        };
        for mount in self.files.mounts().iter() {
            add(&mount.prefix, &mount.host, mount.access == Access::ReadOnly)?;
        }
        add(INSIDE_HOME, &paths.home(), false)?;
        add("/tmp", &paths.tmp(), false)?;
        let limits = Limits {
            memory_bytes: self.config.memory_mb.saturating_mul(1 << 20),
            processes: self.config.processes,
            // 0 would be no limit.
            file_size_bytes: if only_make_room { 1 } else { self.config.file_size_mb.saturating_mul(1 << 20) },
        };
        Ok(Shape { limits, mounts })
    }

    /// The job, without mounts.
    fn job(&self, request: ExecRequest, shape: &Shape) -> Result<Job, SandboxError> {
        if request.command.len() > MAX_COMMAND || request.command.contains('\0') {
            let message =
                "the command is too long (128 KiB) or contains a NUL; write a script file and run it".to_owned();
            return Err(SandboxError::Launch { step: "command".to_owned(), message });
        }
        let mut env = env::build(INSIDE_HOME, "/tmp", &self.config.environment, &request.env)?;
        let cwd = request.cwd.map_or_else(|| WORKSPACE.to_owned(), String::from);
        env.push(("PWD".to_owned(), cwd.clone()));
        let mounts = Vec::new();
        let stay = self.parking.is_open();
        Ok(Job { command: request.command, env, cwd, mounts, limits: shape.limits.clone(), stay })
    }
}

#[async_trait]
impl Shell for IsolatedShell {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        self.run(request, cancel).await
    }
}

/// Where the mounts of a shape come from. With `pass`, this process makes them, as root, and they come along: the dedicated
/// user may not be able to walk there.
fn sources(shape: &Shape, pass: bool) -> Result<(Vec<Source>, Vec<OwnedFd>), SandboxError> {
    let mut passed = Vec::new();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let source = |shown: &Shown| {
        if pass {
            match open_tree(CWD, &shown.host, flags) {
                Ok(tree) => {
                    passed.push(tree);
                    return Ok(Source::Passed(passed.len() - 1));
                }
                // Root without the capability to mount: the launcher can, in its own namespace.
                Err(Errno::PERM) => {}
                Err(errno) => return Err(SandboxError::at("mounting", &shown.target, errno)),
            }
        }
        Ok(Source::Path(shown.host.clone()))
    };
    let sources = shape.mounts.iter().map(source).collect::<Result<_, _>>()?;
    Ok((sources, passed))
}
