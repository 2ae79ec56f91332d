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
use super::network;
use super::parking::{Identity, Idle, Parking, Shape, Shown};
use super::plain::PlainLauncher;
use super::running::{Finished, Running};
use crate::cgroup::{Cell, Cgroups};
use crate::config::SandboxConfig;
use crate::egress::Egress;
use crate::exec::disk::DiskWatch;
use crate::exec::env;
use crate::exec::group::Group;
use crate::files::{Access, ThreadFiles};
use crate::local::{Folders, Shell};
use crate::mask::{PathMask, translate};
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
    /// Rules of the network; `None` where it is off.
    egress: Option<Arc<Egress>>,
    disk: DiskWatch,
    mask: PathMask,
}

/// What runs the commands of a provider.
pub(super) enum Engine {
    /// Own launcher, with the cgroups of its sandboxes if there are any.
    Launcher(Arc<LauncherClient>, Option<Arc<Cgroups>>),
    /// Landlock without namespaces.
    Plain(PlainLauncher),
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
        egress: Option<Arc<Egress>>,
        mask: PathMask,
    ) -> Self {
        let disk = DiskWatch::new(folders.paths().thread_dir(), &config);
        let thread = folders.paths().name();
        Self { thread, folders, files, config, engine, parking, egress, disk, mask }
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
                let mut command = bwrap.command(&job, &shape.mounts);
                // With a network, the input is a socket: the same in all else, and the helper inside answers on it.
                let socket = self.egress.as_ref().map(|_| network::input_socket(&mut command)).transpose()?;
                let group = Group::spawn(command, self.capture())?;
                let proxy = match (&self.egress, &socket) {
                    (Some(egress), Some(socket)) => {
                        network::open(egress, &self.thread, socket, &mut Vec::new(), &cancel).await?
                    }
                    _ => None,
                };
                let mut output = group.finish(timeout, &cancel, &self.disk).await;
                output.network = network::close(proxy).await;
                drop(socket);
                output
            }
            Engine::Plain(plain) => self.plainly(plain, request, &cancel, only_make_room).await?,
            Engine::Launcher(client, cgroups) => {
                self.launch(client, cgroups.as_ref(), request, &cancel, only_make_room).await?
            }
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
        cgroups: Option<&Arc<Cgroups>>,
        request: ExecRequest,
        cancel: &CancellationToken,
        only_make_room: bool,
    ) -> Result<ExecOutput, SandboxError> {
        let timeout = self.timeout(&request);
        let shape = self.shape(only_make_room)?;
        let mut job = self.job(request, &shape)?;
        spare(&mut job, cgroups);
        let (mut finished, mut cell) = (None, None);
        while finished.is_none()
            && let Some(idle) = self.parking.take(&self.thread, &shape)
        {
            cell = idle.cell;
            let mut running = Running::hand_over(idle.control, &job, None, self.capture()).await?;
            running.open_network(self.egress.as_ref(), &self.thread, cancel).await?;
            // `None`: it died while it waited, and never took the job.
            finished = running.finish(timeout, cancel, &self.disk).await?;
        }
        if finished.is_none() {
            let mount = |shown: &Shown| JobMount { target: shown.target.clone(), read_only: shown.read_only };
            job.mounts = shape.mounts.iter().map(mount).collect();
            let entry;
            (cell, entry) = make_cell(cgroups, &shape.limits)?;
            let (sources, mounts) = sources(&shape, self.folders.owner().is_some())?;
            let ask = Ask { thread: self.thread.clone(), cgroup: entry.is_some(), sources };
            let fds: Vec<OwnedFd> = entry.into_iter().chain(mounts).collect();
            // Should the launcher die before it took the job, which then never ran, the next one may have it.
            for _ in 0..2 {
                let mut running = Running::start(client, &ask, &job, &fds, self.capture()).await?;
                running.open_network(self.egress.as_ref(), &self.thread, cancel).await?;
                finished = running.finish(timeout, cancel, &self.disk).await?;
                if finished.is_some() {
                    break;
                }
            }
        }
        let lost = || launch_error(&Failure::new("starting the command", "the launcher died twice"));
        let Finished { mut output, ready } = finished.ok_or_else(lost)?;
        blame(&mut output, cell.as_ref());
        if let Some(control) = ready {
            self.parking.put(&self.thread, shape, Idle { control, cell });
        }
        Ok(output)
    }

    /// Runs a command without namespaces. Paths of the sandbox do not exist there: they are translated.
    async fn plainly(
        &self,
        plain: &PlainLauncher,
        request: ExecRequest,
        cancel: &CancellationToken,
        only_make_room: bool,
    ) -> Result<ExecOutput, SandboxError> {
        let timeout = self.timeout(&request);
        let shape = self.shape(only_make_room)?;
        let mut job = self.job(request, &shape)?;
        spare(&mut job, plain.cgroups.as_ref());
        let host = |shown: &Shown| (shown.target.clone(), shown.host.to_string_lossy().into_owned());
        let mut pairs: Vec<(String, String)> = shape.mounts.iter().map(host).collect();
        pairs.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        job.command = translate(&job.command, &pairs);
        job.cwd = translate(&job.cwd, &pairs);
        for (_, value) in job.env.iter_mut().filter(|(name, _)| ["HOME", "TMPDIR", "PWD"].contains(&name.as_str())) {
            *value = translate(value, &pairs);
        }
        let mount =
            |shown: &Shown| JobMount { target: shown.host.to_string_lossy().into_owned(), read_only: shown.read_only };
        job.mounts = shape.mounts.iter().map(mount).collect();
        let (cell, entry) = make_cell(plain.cgroups.as_ref(), &shape.limits)?;
        let (running, mut watcher) = plain.start(&job, entry.as_ref(), self.capture()).await?;
        let finished = running.finish(timeout, cancel, &self.disk).await?;
        let _ = watcher.wait().await;
        let lost = || launch_error(&Failure::new("starting the command", "the watching process died"));
        let mut output = finished.ok_or_else(lost)?.output;
        blame(&mut output, cell.as_ref());
        output.stdout = self.mask.apply(&output.stdout);
        output.stderr = self.mask.apply(&output.stderr);
        Ok(output)
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
        Ok(Job {
            command: request.command,
            env,
            cwd,
            mounts,
            limits: shape.limits.clone(),
            stay,
            proxy: self.egress.is_some(),
        })
    }
}

#[async_trait]
impl Shell for IsolatedShell {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        self.run(request, cancel).await
    }
}

/// A cgroup for a new sandbox and its entry, where there are any.
fn make_cell(cgroups: Option<&Arc<Cgroups>>, limits: &Limits) -> Result<(Option<Cell>, Option<OwnedFd>), SandboxError> {
    let make = |cgroups: &Arc<Cgroups>| cgroups.make(limits.memory_bytes, limits.processes);
    let cell = cgroups.map(make).transpose().map_err(no_cgroup)?;
    let entry = cell.as_ref().map(Cell::entry).transpose().map_err(no_cgroup)?;
    Ok((cell, entry))
}

/// With a cgroup the kernel counts the memory of all processes together, and address space that is only reserved is free.
fn spare(job: &mut Job, cgroups: Option<&Arc<Cgroups>>) {
    if cgroups.is_some() {
        job.limits.memory_bytes = 0;
    }
}

/// Without memory the kernel ends all of a sandbox, pid 1 too.
fn blame(output: &mut ExecOutput, cell: Option<&Cell>) {
    if output.signal == Some(libc::SIGKILL) && cell.is_some_and(Cell::ran_out_of_memory) {
        (output.signal, output.limit_hit) = (None, Some(LimitHit::Memory));
    }
}

fn no_cgroup(error: std::io::Error) -> SandboxError {
    launch_error(&Failure::new("making a cgroup", error))
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
