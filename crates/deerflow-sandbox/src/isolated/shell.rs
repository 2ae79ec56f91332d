//! One command in the isolated computer: from request to the death of its last process.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::bwrap::Bwrap;
use super::client::{LauncherClient, launch_error};
use crate::config::SandboxConfig;
use crate::egress::{Egress, NetworkUse, Proxy, receive};
use crate::exec::capture::Output;
use crate::exec::disk::DiskWatch;
use crate::exec::env;
use crate::exec::group::Group;
use crate::files::{Access, ThreadFiles};
use crate::local::Shell;
use crate::protocol::{Failure, INSIDE_HOME, Job, JobMount, Limits, Report, Source};
use crate::sandbox::{ExecOutput, ExecRequest, LimitHit};
use crate::{SandboxError, ThreadPaths, WORKSPACE};

/// Longest command: the kernel's limit for one argument, less some.
const MAX_COMMAND: usize = 128 * 1024 - 64;
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the kernel may take to end a process tree.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REPORT: usize = 64 * 1024;
const EXIT_FILE_SIZE: i32 = 128 + libc::SIGXFSZ;

pub(crate) struct IsolatedShell {
    /// Name of the thread for the launcher.
    thread: String,
    paths: ThreadPaths,
    files: Arc<ThreadFiles>,
    config: Arc<SandboxConfig>,
    engine: Arc<Engine>,
    owner: Option<u32>,
    /// Rules of the network; `None` where it is off.
    egress: Option<Arc<Egress>>,
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
        paths: ThreadPaths,
        files: Arc<ThreadFiles>,
        config: Arc<SandboxConfig>,
        engine: Arc<Engine>,
        owner: Option<u32>,
        egress: Option<Arc<Egress>>,
    ) -> Self {
        let disk = DiskWatch::new(paths.thread_dir(), &config);
        let thread = paths.name();
        Self { thread, paths, files, config, engine, owner, egress, disk }
    }

    async fn run(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        let started = Instant::now();
        let timeout = request.timeout.unwrap_or_else(|| self.config.command_timeout());
        let capture = self.config.capture_kb * 1024;
        // A command may have removed its directories.
        self.paths.ensure_owned(self.owner)?;
        let only_make_room = self.disk.is_over().await;
        let mut output = match &*self.engine {
            Engine::Withdrawn(reasons) => return Err(SandboxError::ShellUnavailable { reasons: reasons.clone() }),
            Engine::Bwrap(bwrap) => {
                let (job, _) = self.job(request, only_make_room, false)?;
                let mut command = bwrap.command(&job);
                // With a network, the input is a socket: the same in all else, and the helper inside answers on it.
                let network = match &self.egress {
                    Some(_) => Some(input_socket(&mut command)?),
                    None => None,
                };
                let group = Group::spawn(command, capture)?;
                let proxy = match (&self.egress, &network) {
                    (Some(egress), Some(socket)) => {
                        proxy(egress, &self.thread, socket, &mut Vec::new(), &cancel).await?
                    }
                    _ => None,
                };
                let mut output = group.finish(timeout, &cancel, &self.disk).await;
                output.network = stop(proxy).await;
                drop(network);
                output
            }
            Engine::Launcher(client) => {
                let (job, mounts) = self.job(request, only_make_room, self.owner.is_some())?;
                let mut first = Running::start(client, &self.thread, &job, &mounts, capture).await?;
                first.open_network(&self.egress, &self.thread, &cancel).await?;
                match first.finish(timeout, &cancel, &self.disk).await? {
                    Some(output) => output,
                    // The launcher died before it took the job, which therefore never ran: the next one may have it.
                    None => {
                        let mut again = Running::start(client, &self.thread, &job, &mounts, capture).await?;
                        again.open_network(&self.egress, &self.thread, &cancel).await?;
                        let lost = Failure::new("starting the command", "the launcher died twice");
                        again.finish(timeout, &cancel, &self.disk).await?.ok_or_else(|| launch_error(&lost))?
                    }
                }
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

    /// The job. With `only_make_room`, no file can grow, but any can be removed or cut. With `pass`, this process makes the mounts, as root, and they come along.
    fn job(&self, request: ExecRequest, only_make_room: bool, pass: bool) -> Result<(Job, Vec<OwnedFd>), SandboxError> {
        if request.command.len() > MAX_COMMAND || request.command.contains('\0') {
            let message =
                "the command is too long (128 KiB) or contains a NUL; write a script file and run it".to_owned();
            return Err(SandboxError::Launch { step: "command".to_owned(), message });
        }
        let mut env = env::build(INSIDE_HOME, "/tmp", &self.config.environment, &request.env)?;
        let cwd = request.cwd.map_or_else(|| WORKSPACE.to_owned(), String::from);
        env.push(("PWD".to_owned(), cwd.clone()));
        let mut passed = Vec::new();
        let mut mounts = Vec::new();
        let mut add = |target: &str, host: &Path, read_only: bool| -> Result<(), SandboxError> {
            match source(host, pass, &mut passed) {
                Ok(source) => mounts.push(JobMount { target: target.to_owned(), source, read_only }),
                // Skills and custom mounts may not be there.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(SandboxError::at("mounting", target, errno)),
            }
            Ok(())
        };
        for mount in self.files.mounts().iter() {
            add(&mount.prefix, &mount.host, mount.access == Access::ReadOnly)?;
        }
        add(INSIDE_HOME, &self.paths.home(), false)?;
        add("/tmp", &self.paths.tmp(), false)?;
        let limits = Limits {
            memory_bytes: self.config.memory_mb.saturating_mul(1 << 20),
            processes: self.config.processes,
            // 0 would be no limit.
            file_size_bytes: if only_make_room { 1 } else { self.config.file_size_mb.saturating_mul(1 << 20) },
        };
        Ok((Job { command: request.command, env, cwd, mounts, limits, proxy: self.egress.is_some() }, passed))
    }
}

#[async_trait]
impl Shell for IsolatedShell {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        self.run(request, cancel).await
    }
}

/// Root makes the mount itself: the dedicated user may not be able to walk there.
fn source(host: &Path, pass: bool, passed: &mut Vec<OwnedFd>) -> Result<Source, Errno> {
    if pass {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        match open_tree(CWD, host, flags) {
            Ok(tree) => {
                passed.push(tree);
                return Ok(Source::Passed(passed.len() - 1));
            }
            // Root without the capability to mount: the launcher can, in its own namespace.
            Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::lstat(host)?;
    Ok(Source::Path(host.to_owned()))
}

/// A started job.
struct Running {
    control: UnixStream,
    stdout: Output,
    stderr: Output,
    report: Vec<u8>,
    proxy: Option<Proxy>,
    /// The control socket has ended: the last process is gone.
    gone: bool,
}

/// Why the server ended a job.
enum Ended {
    Timeout,
    Cancelled,
    Limit(LimitHit),
}

impl Running {
    async fn start(
        client: &Arc<LauncherClient>,
        thread: &str,
        job: &Job,
        mounts: &[OwnedFd],
        capture: u64,
    ) -> Result<Self, SandboxError> {
        let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
        let errno = |errno: Errno| system(errno.into());
        let (ours, theirs) = StdUnixStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let (out, out_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(errno)?;
        let (err, err_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(errno)?;
        let mut fds: Vec<BorrowedFd<'_>> = vec![theirs.as_fd(), out_writer.as_fd(), err_writer.as_fd()];
        fds.extend(mounts.iter().map(AsFd::as_fd));
        client.send(thread, &fds).await?;
        drop((theirs, out_writer, err_writer));
        let mut control = UnixStream::from_std(ours).map_err(system)?;
        let body = serde_json::to_vec(job).map_err(|error| system(std::io::Error::other(error)))?;
        let length = u32::try_from(body.len()).map_err(|error| system(std::io::Error::other(error)))?;
        let message = [&length.to_be_bytes(), body.as_slice()].concat();
        let write = tokio::time::timeout(START_TIMEOUT, control.write_all(&message)).await;
        match write.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(()) => {}
            // A set-up that failed before reading has said why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(system(error)),
        }
        let (stdout, stderr) = (Output::new(out, capture).map_err(system)?, Output::new(err, capture).map_err(system)?);
        Ok(Self { control, stdout, stderr, report: Vec::new(), proxy: None, gone: false })
    }

    /// Waits for the sandbox's socket and serves it, where there is a network.
    async fn open_network(
        &mut self,
        egress: &Option<Arc<Egress>>,
        thread: &str,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        if let Some(egress) = egress {
            self.proxy = proxy(egress, thread, &self.control, &mut self.report, cancel).await?;
        }
        Ok(())
    }

    /// Collects output until every process is gone. `None`: the job was never taken.
    async fn finish(
        mut self,
        timeout: Duration,
        cancel: &CancellationToken,
        disk: &DiskWatch,
    ) -> Result<Option<ExecOutput>, SandboxError> {
        let ended = tokio::select! {
            () = self.drain() => None,
            () = cancel.cancelled() => Some(Ended::Cancelled),
            () = tokio::time::sleep(timeout) => Some(Ended::Timeout),
            limit = disk.exceeded() => Some(Ended::Limit(limit)),
        };
        if ended.is_some() {
            self.kill().await;
        }
        let network = stop(self.proxy.take()).await;
        let output = self.output(ended)?;
        Ok(output.map(|output| ExecOutput { network, ..output }))
    }

    /// Pid 1 exits when it sees the end of the control socket, and takes all with it.
    async fn kill(&mut self) {
        let _ = shutdown(&self.control);
        if tokio::time::timeout(KILL_TIMEOUT, self.drain()).await.is_err() {
            tracing::error!("a sandbox did not end when told to");
        }
    }

    /// Cancel safe: each step stores what it takes.
    async fn drain(&mut self) {
        while !(self.gone && !self.stdout.is_open() && !self.stderr.is_open()) {
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
                () = read_report(&self.control, &mut self.report, &mut self.gone) => {}
            }
        }
    }

    fn output(self, ended: Option<Ended>) -> Result<Option<ExecOutput>, SandboxError> {
        if self.report.is_empty() && ended.is_none() {
            return Ok(None);
        }
        let report: Option<Report> = serde_json::from_slice(&self.report).ok();
        let mut output = ExecOutput::default();
        match (report, &ended) {
            (Some(Report::Failed(failure)), _) => return Err(launch_error(&failure)),
            (_, Some(Ended::Timeout)) => output.timed_out = true,
            (_, Some(Ended::Cancelled)) => output.cancelled = true,
            (_, Some(Ended::Limit(limit))) => output.limit_hit = Some(*limit),
            (Some(Report::Exited(code)), None) => output.exit_code = Some(code),
            (Some(Report::Signalled(signal)), None) => output.signal = Some(signal),
            (Some(Report::OutOfMemory), None) => output.limit_hit = Some(LimitHit::Memory),
            // Pid 1 was killed from outside: the kernel was out of memory, or an operator.
            (None, None) => output.signal = Some(libc::SIGKILL),
        }
        (output.stdout, output.stdout_cut) = self.stdout.finish();
        (output.stderr, output.stderr_cut) = self.stderr.finish();
        Ok(Some(output))
    }
}

/// Serves the socket that comes over `channel`; `None` if none comes, because the other side ended or the caller wants no more.
/// What else comes is added to `seen`.
async fn proxy(
    egress: &Arc<Egress>,
    thread: &str,
    channel: &UnixStream,
    seen: &mut Vec<u8>,
    cancel: &CancellationToken,
) -> Result<Option<Proxy>, SandboxError> {
    let listener = tokio::select! {
        () = cancel.cancelled() => return Ok(None),
        listener = tokio::time::timeout(START_TIMEOUT, receive(channel, seen)) => listener,
    };
    let listener = listener.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    let listener = listener.map_err(|error| launch_error(&Failure::new("opening the network", error)))?;
    Ok(listener.map(|listener| Proxy::start(listener, Arc::clone(egress), thread)))
}

async fn stop(proxy: Option<Proxy>) -> Option<NetworkUse> {
    match proxy {
        Some(proxy) => Some(proxy.stop().await),
        None => None,
    }
}

/// Gives a command a socket as its input; our end, which ends the command when it is dropped.
fn input_socket(command: &mut Command) -> Result<UnixStream, SandboxError> {
    let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
    let (ours, theirs) = StdUnixStream::pair().map_err(system)?;
    ours.set_nonblocking(true).map_err(system)?;
    command.stdin(OwnedFd::from(theirs));
    UnixStream::from_std(ours).map_err(system)
}

fn shutdown(control: &UnixStream) -> std::io::Result<()> {
    let socket = rustix::io::dup(control)?;
    StdUnixStream::from(socket).shutdown(Shutdown::Write)
}

async fn read_report(control: &UnixStream, report: &mut Vec<u8>, gone: &mut bool) {
    if *gone {
        return std::future::pending().await;
    }
    if control.readable().await.is_err() {
        *gone = true;
        return;
    }
    let mut buffer = [0; 4096];
    match control.try_read(&mut buffer) {
        Ok(0) => *gone = true,
        Ok(count) if report.len() < MAX_REPORT => report.extend_from_slice(&buffer[..count]),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(_) => *gone = true,
    }
}
