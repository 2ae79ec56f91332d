//! A command as a process group of the host, killed as such.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use crate::SandboxError;
use crate::exec::capture::Output;
use crate::exec::disk::DiskWatch;
use crate::sandbox::{ExecOutput, LimitHit};

/// How long output is awaited after the command has exited, while a background process holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);

enum Ended {
    Exit,
    Timeout,
    Cancelled,
    Limit(LimitHit),
}

/// A running command. Dropping it kills the group.
pub(crate) struct Group {
    child: Child,
    /// Held open, if the command has one: waiting for the child would close it.
    _input: Option<ChildStdin>,
    id: Option<Pid>,
    stdout: Output,
    stderr: Output,
    status: Option<ExitStatus>,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Group {
    /// Starts a command, which has its program, arguments, environment, directory and input already, keeping at most `limit`
    /// bytes of each output.
    pub(crate) fn spawn(mut command: Command, limit: u64) -> Result<Self, SandboxError> {
        let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
        let (out, out_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        let (err, err_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        command.stdout(Stdio::from(out_writer)).stderr(Stdio::from(err_writer));
        let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(system)?;
        // The writers in `command` must go, or the pipes would never end.
        drop(command);
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let (stdout, stderr) = (Output::new(out, limit).map_err(system)?, Output::new(err, limit).map_err(system)?);
        Ok(Self { _input: child.stdin.take(), child, id, stdout, stderr, status: None })
    }

    /// Waits for the command itself, or for what ends it early; then kills what is left of the group.
    pub(crate) async fn finish(
        mut self,
        timeout: Duration,
        cancel: &CancellationToken,
        disk: &DiskWatch,
    ) -> ExecOutput {
        let ended = tokio::select! {
            () = self.until_exit() => Ended::Exit,
            () = cancel.cancelled() => Ended::Cancelled,
            () = tokio::time::sleep(timeout) => Ended::Timeout,
            limit = disk.exceeded() => Ended::Limit(limit),
        };
        if matches!(ended, Ended::Exit) {
            let _ = tokio::time::timeout(DRAIN, self.read_rest()).await;
        }
        self.kill();
        if self.status.is_none() {
            self.status = self.child.wait().await.ok();
        }
        let _ = tokio::time::timeout(DRAIN, self.read_rest()).await;
        let mut output = ExecOutput::default();
        match ended {
            Ended::Exit => {
                output.exit_code = self.status.and_then(|status| status.code());
                output.signal = self.status.and_then(|status| status.signal());
            }
            Ended::Timeout => output.timed_out = true,
            Ended::Cancelled => output.cancelled = true,
            Ended::Limit(limit) => output.limit_hit = Some(limit),
        }
        (output.stdout, output.stdout_cut) = self.stdout.take().finish();
        (output.stderr, output.stderr_cut) = self.stderr.take().finish();
        output
    }

    /// Reads output until the command itself has exited.
    async fn until_exit(&mut self) {
        while self.status.is_none() {
            tokio::select! {
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
                status = self.child.wait() => self.status = status.ok().or(Some(ExitStatus::from_raw(0xff00))),
            }
        }
    }

    fn kill(&self) {
        if let Some(id) = self.id {
            // ESRCH: all of it is gone.
            let _ = killpg(id, Signal::SIGKILL);
        }
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
