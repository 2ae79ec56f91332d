//! One job in a sandbox: handing it over, collecting its output, ending it.

use std::io::{ErrorKind, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::client::{LauncherClient, launch_error};
use super::network;
use crate::SandboxError;
use crate::egress::{Egress, Proxy};
use crate::exec::capture::Output;
use crate::exec::disk::DiskWatch;
use crate::protocol::{Ask, Ended, Job, Report, TAKEN};
use crate::sandbox::{ExecOutput, LimitHit};

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the kernel may take to end a process tree.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REPORT: usize = 64 * 1024;

/// A started job.
pub(super) struct Running {
    control: UnixStream,
    stdout: Output,
    stderr: Output,
    /// What pid 1 has said.
    said: Vec<u8>,
    proxy: Option<Proxy>,
    ended: Option<Ended>,
    /// The control socket has ended: the last process is gone.
    gone: bool,
}

/// A job that is over.
pub(super) struct Finished {
    pub output: ExecOutput,
    /// The sandbox, if it takes a further job.
    pub ready: Option<UnixStream>,
}

/// Why the server ended a job.
enum Stopped {
    Timeout,
    Cancelled,
    Limit(LimitHit),
}

impl Running {
    /// Asks the launcher for a sandbox and hands it the job.
    pub(super) async fn start(
        client: &Arc<LauncherClient>,
        ask: &Ask,
        job: &Job,
        further: &[OwnedFd],
        capture: u64,
    ) -> Result<Self, SandboxError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let mut fds: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        fds.extend(further.iter().map(AsFd::as_fd));
        client.send(ask, &fds).await?;
        drop(theirs);
        Self::hand_over(UnixStream::from_std(ours).map_err(system)?, job, None, capture).await
    }

    /// Hands a job to a sandbox; the entry of a cgroup may come with it.
    pub(super) async fn hand_over(
        control: UnixStream,
        job: &Job,
        cgroup: Option<&OwnedFd>,
        capture: u64,
    ) -> Result<Self, SandboxError> {
        let errno = |errno: rustix::io::Errno| system(errno.into());
        let (out, out_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(errno)?;
        let (err, err_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(errno)?;
        let body = serde_json::to_vec(job).map_err(|error| system(error.into()))?;
        let length = u32::try_from(body.len()).map_err(|error| system(std::io::Error::other(error)))?;
        let message = [&length.to_be_bytes(), body.as_slice()].concat();
        let fds = [&out_writer, &err_writer].into_iter().chain(cgroup).map(AsRawFd::as_raw_fd);
        let fds: Vec<RawFd> = fds.collect();
        let send = send(&control, &message, &fds);
        match tokio::time::timeout(START_TIMEOUT, send).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(()) => {}
            // A set-up that failed before reading has said why; a sandbox that is gone says nothing.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => return Err(system(error)),
        }
        drop((out_writer, err_writer));
        let (stdout, stderr) = (Output::new(out, capture).map_err(system)?, Output::new(err, capture).map_err(system)?);
        Ok(Self { control, stdout, stderr, said: Vec::new(), proxy: None, ended: None, gone: false })
    }

    /// Waits for the socket of the sandbox and serves it, where there is a network.
    pub(super) async fn open_network(
        &mut self,
        egress: Option<&Arc<Egress>>,
        thread: &str,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        if let Some(egress) = egress {
            self.proxy = network::open(egress, thread, &self.control, &mut self.said, cancel).await?;
        }
        Ok(())
    }

    /// Collects output until every process of the command is gone. `None`: the job was never taken.
    pub(super) async fn finish(
        mut self,
        timeout: Duration,
        cancel: &CancellationToken,
        disk: &DiskWatch,
    ) -> Result<Option<Finished>, SandboxError> {
        let stopped = tokio::select! {
            () = self.drain() => None,
            () = cancel.cancelled() => Some(Stopped::Cancelled),
            () = tokio::time::sleep(timeout) => Some(Stopped::Timeout),
            limit = disk.exceeded() => Some(Stopped::Limit(limit)),
        };
        if stopped.is_some() {
            self.kill().await;
        }
        // Before the sandbox takes a further job, whose proxy will be another.
        let network = network::close(self.proxy.take()).await;
        let finished = self.finished(stopped)?;
        Ok(finished.map(|finished| Finished { output: ExecOutput { network, ..finished.output }, ..finished }))
    }

    /// Pid 1 exits when it sees the end of the control socket, and takes all with it.
    async fn kill(&mut self) {
        let _ = shutdown(&self.control);
        self.ended = self.ended.take().map(|ended| Ended { ready: false, ..ended });
        if tokio::time::timeout(KILL_TIMEOUT, self.drain()).await.is_err() {
            tracing::error!("a sandbox did not end when told to");
        }
    }

    /// Cancel safe: each step stores what it takes.
    async fn drain(&mut self) {
        while !(self.is_over() && !self.stdout.is_open() && !self.stderr.is_open()) {
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
                () = listen(&self.control, &mut self.said, &mut self.ended, &mut self.gone) => {}
            }
        }
    }

    /// No process of the command is left.
    fn is_over(&self) -> bool {
        self.gone || self.ended.as_ref().is_some_and(|ended| ended.ready)
    }

    fn finished(self, stopped: Option<Stopped>) -> Result<Option<Finished>, SandboxError> {
        if self.said.is_empty() && stopped.is_none() {
            return Ok(None);
        }
        let (report, ready) = self.ended.map_or((None, false), |ended| (Some(ended.report), ended.ready));
        let mut output = ExecOutput::default();
        match (report, &stopped) {
            (Some(Report::Failed(failure)), _) => return Err(launch_error(&failure)),
            (_, Some(Stopped::Timeout)) => output.timed_out = true,
            (_, Some(Stopped::Cancelled)) => output.cancelled = true,
            (_, Some(Stopped::Limit(limit))) => output.limit_hit = Some(*limit),
            (Some(Report::Exited(code)), None) => output.exit_code = Some(code),
            (Some(Report::Signalled(signal)), None) => output.signal = Some(signal),
            (Some(Report::OutOfMemory), None) => output.limit_hit = Some(LimitHit::Memory),
            // Pid 1 was killed from outside: the kernel was out of memory, or an operator.
            (None, None) => output.signal = Some(libc::SIGKILL),
        }
        (output.stdout, output.stdout_cut) = self.stdout.finish();
        (output.stderr, output.stderr_cut) = self.stderr.finish();
        Ok(Some(Finished { output, ready: (ready && stopped.is_none()).then_some(self.control) }))
    }
}

fn system(error: std::io::Error) -> SandboxError {
    SandboxError::system("starting a command", &error)
}

/// Writes all of a message; the descriptors go with its first byte.
async fn send(control: &UnixStream, message: &[u8], fds: &[RawFd]) -> std::io::Result<()> {
    let rights = [ControlMessage::ScmRights(fds)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let mut rest = message;
    while !rest.is_empty() {
        let with = if rest.len() == message.len() { rights.as_slice() } else { &[] };
        let sent = control.try_io(Interest::WRITABLE, || {
            Ok(sendmsg::<()>(control.as_raw_fd(), &[IoSlice::new(rest)], with, flags, None)?)
        });
        match sent {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => control.writable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Too many descriptors are under way for a moment.
            Err(error) if error.raw_os_error() == Some(Errno::ETOOMANYREFS as i32) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn shutdown(control: &UnixStream) -> std::io::Result<()> {
    let socket = rustix::io::dup(control)?;
    StdUnixStream::from(socket).shutdown(Shutdown::Write)
}

/// Takes what pid 1 says. Cancel safe.
async fn listen(control: &UnixStream, said: &mut Vec<u8>, ended: &mut Option<Ended>, gone: &mut bool) {
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
        Ok(count) if said.len() < MAX_REPORT => said.extend_from_slice(&buffer[..count]),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(_) => *gone = true,
    }
    if ended.is_none()
        && let Some(line) = said.strip_suffix(b"\n")
        && !line.is_empty()
    {
        *ended = serde_json::from_slice(line.strip_prefix(TAKEN).unwrap_or(line)).ok();
    }
}
