//! The server's side of the conversation with the launcher.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair};

use super::Launcher;
use crate::SandboxError;
use crate::protocol::{Ask, Failure, MAX_FDS, MAX_PACKET, Ready, Setup};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the launcher when it is first needed, and again when it is gone.
pub(super) struct LauncherClient {
    launcher: Launcher,
    setup: Setup,
    process: Mutex<Option<Arc<Process>>>,
}

/// A running launcher.
struct Process {
    socket: OwnedFd,
    child: Mutex<Child>,
    degraded: Vec<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The launcher exits by itself when the socket closes; this makes sure and collects it. Jobs that still run watch
        // their own control sockets.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl LauncherClient {
    pub(super) fn new(launcher: Launcher, setup: Setup) -> Self {
        Self { launcher, setup, process: Mutex::new(None) }
    }

    /// Starts the launcher; what protection it lacks.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<Vec<String>, SandboxError> {
        self.process().await.map(|process| process.degraded.clone())
    }

    /// Asks the launcher for a sandbox with these descriptors.
    pub(super) async fn send(self: &Arc<Self>, ask: &Ask, fds: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let fail = |error: &dyn std::fmt::Display| launch_error(&Failure::new("handing over the command", error));
        let packet = serde_json::to_vec(ask).map_err(|error| fail(&error))?;
        if packet.len() > MAX_PACKET || fds.len() > MAX_FDS {
            return Err(fail(&"too many mounts are configured"));
        }
        let mut restarted = false;
        let deadline = Instant::now() + SEND_TIMEOUT;
        loop {
            let process = self.process().await?;
            let rights = [ControlMessage::ScmRights(&numbers)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(process.socket.as_raw_fd(), &[IoSlice::new(&packet)], &rights, flags, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                // The queue is full for a moment, or too many descriptors are under way.
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS | Errno::ENOBUFS) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(Errno::EPIPE | Errno::ECONNRESET) if !restarted => {
                    tracing::warn!("the sandbox launcher is gone; starting it again");
                    restarted = true;
                    self.forget(&process);
                }
                Err(errno) => return Err(fail(&errno)),
            }
        }
    }

    fn current(&self) -> Option<Arc<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget(&self, gone: &Arc<Process>) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.as_ref().is_some_and(|current| Arc::ptr_eq(current, gone)) {
            *process = None;
        }
    }

    async fn process(self: &Arc<Self>) -> Result<Arc<Process>, SandboxError> {
        if let Some(process) = self.current() {
            return Ok(process);
        }
        let client = Arc::clone(self);
        let start = move || {
            // Held while starting, so that one launcher is started for all who wait.
            let mut process = client.process.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(process) = process.as_ref() {
                return Ok(Arc::clone(process));
            }
            let started = Arc::new(start(&client.launcher, &client.setup)?);
            *process = Some(Arc::clone(&started));
            Ok(started)
        };
        tokio::task::spawn_blocking(start)
            .await
            .unwrap_or_else(|error| Err(Failure::new("starting the launcher", error)))
            .map_err(|failure| launch_error(&failure))
    }
}

pub(super) fn launch_error(failure: &Failure) -> SandboxError {
    SandboxError::Launch { step: failure.step.clone(), message: failure.message.clone() }
}

fn start(launcher: &Launcher, setup: &Setup) -> Result<Process, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("starting the launcher", error);
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|errno| fail(&errno))?;
    let child = Command::new(&launcher.program)
        .args(&launcher.args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(&error))?;
    let mut process = Process { socket: ours, child: Mutex::new(child), degraded: Vec::new() };
    let setup = serde_json::to_vec(setup).map_err(|error| fail(&error))?;
    if setup.len() > MAX_PACKET {
        return Err(fail(&"too many mounts are configured"));
    }
    sendmsg::<()>(process.socket.as_raw_fd(), &[IoSlice::new(&setup)], &[], MsgFlags::MSG_NOSIGNAL, None)
        .map_err(|errno| fail(&errno))?;
    match receive_ready(&process.socket)? {
        Ready::Ok { degraded } => {
            process.degraded = degraded;
            Ok(process)
        }
        Ready::Failed(failure) => Err(failure),
    }
}

fn receive_ready(socket: &OwnedFd) -> Result<Ready, Failure> {
    use std::os::fd::AsFd;
    let fail = |error: &dyn std::fmt::Display| Failure::new("starting the launcher", error);
    let timeout = PollTimeout::try_from(START_TIMEOUT).map_err(|_| fail(&"bad timeout"))?;
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout) {
        Ok(0) => return Err(fail(&"no answer in time")),
        Ok(_) => {}
        Err(errno) => return Err(fail(&errno)),
    }
    let mut bytes = vec![0; MAX_PACKET];
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let length =
        recvmsg::<()>(socket.as_raw_fd(), &mut iov, None, MsgFlags::MSG_DONTWAIT).map_err(|errno| fail(&errno))?.bytes;
    if length == 0 {
        return Err(fail(&"it exited; is the program a launcher?"));
    }
    serde_json::from_slice(&bytes[..length]).map_err(|error| fail(&error))
}
