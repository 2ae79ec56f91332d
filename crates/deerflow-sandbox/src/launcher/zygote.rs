//! The launcher's main loop: takes jobs, clones a pid 1 for each, and keeps their control sockets until they are gone.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::io::FdFlags;
use seccompiler::BpfProgram;

use super::init::{self, Channels};
use super::network::NetworkPool;
use super::{confine, seccomp, sys, template};
use crate::protocol::{Ended, Failure, MAX_FDS, MAX_PACKET, Ready, Report, Setup};

const JOB_NAMESPACES: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
/// How long without work before a network is made ahead.
const IDLE_MS: u16 = 3;

pub(super) fn main() -> ! {
    // Whatever the server was started with and has passed on unknowingly must not reach a command.
    sys::close_from(3);
    // Standard input is the server's socket; no child may inherit it.
    let socket = sys::own_fd(0);
    let _ = rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC);
    let code = match run(&socket) {
        Ok(()) => 0,
        Err(failure) => {
            let _ = answer(&socket, &Ready::Failed(failure));
            1
        }
    };
    sys::exit_now(code)
}

/// What every job needs of the launcher.
struct Zygote {
    template: PathBuf,
    filter: BpfProgram,
    networks: NetworkPool,
    signals: SignalFd,
    jobs: HashMap<Pid, RunningJob>,
}

/// What is kept until the job's last process is gone.
struct RunningJob {
    /// Tells the server, by closing.
    _control: OwnedFd,
    thread: String,
    network: Option<OwnedFd>,
}

fn run(socket: &OwnedFd) -> Result<(), Failure> {
    let Some(packet) = receive(socket)? else { return Ok(()) };
    let setup: Setup =
        serde_json::from_slice(&packet.bytes).map_err(|error| Failure::new("reading the set-up", error))?;
    // Nothing in the server's working directory matters here, and the directory must not be held.
    let _ = std::env::set_current_dir("/");
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    if nix::unistd::geteuid().is_root() {
        confine::drop_to(setup.drop_to.unwrap_or(0))?;
    }
    confine::enter_user_namespace(CloneFlags::CLONE_NEWNS)?;
    let template = template::build(&setup)?;
    let filter = seccomp::compile()?;
    let mask = SigSet::from(Signal::SIGCHLD);
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|errno| Failure::new("preparing signals", errno))?;
    let mut degraded = Vec::new();
    if sys::landlock_version() == 0 {
        degraded.push("landlock is not available: one layer less".to_owned());
    }
    answer(socket, &Ready::Ok { degraded })?;
    Zygote { template, filter, networks: NetworkPool::default(), signals, jobs: HashMap::new() }.serve(socket)
}

impl Zygote {
    fn serve(mut self, socket: &OwnedFd) -> Result<(), Failure> {
        loop {
            let mut fds =
                [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN), PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            // Networks are made when there is nothing else to do.
            let timeout = if self.networks.is_full() { PollTimeout::NONE } else { PollTimeout::from(IDLE_MS) };
            match poll(&mut fds, timeout) {
                Ok(0) => self.networks.add(),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Failure::new("waiting", errno)),
            }
            let [signalled, asked] = fds.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            if signalled {
                while let Ok(Some(_)) = self.signals.read_signal() {}
                self.reap();
            }
            if asked {
                match receive(socket)? {
                    // The server is gone; so are, by their own control sockets, the jobs.
                    None => return Ok(()),
                    Some(Packet { bytes, fds }) => self.start(String::from_utf8_lossy(&bytes).into_owned(), fds),
                }
            }
        }
    }

    fn start(&mut self, thread: String, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        let Some(control) = fds.next() else { return };
        let network = self.networks.take(&thread);
        let own_network = if network.is_some() { 0 } else { libc::CLONE_NEWNET };
        match sys::fork_with(JOB_NAMESPACES | own_network) {
            Ok(None) => {
                self.jobs.clear();
                self.networks.clear();
                let channels = Channels { control, network, mounts: fds.collect() };
                init::main(channels, &self.template, &self.filter)
            }
            Ok(Some(pid)) => {
                self.jobs.insert(pid, RunningJob { _control: control, thread, network });
            }
            Err(error) => {
                let report = Report::Failed(Failure::new("creating namespaces", error));
                if let Ok(mut bytes) = serde_json::to_vec(&Ended { report, ready: false }) {
                    bytes.push(b'\n');
                    let _ = nix::unistd::write(&control, &bytes);
                }
            }
        }
    }

    /// Lets go of the control sockets of jobs that are gone, and of their last process: the server then sees end of file.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                    if let Some(RunningJob { _control, thread, network: Some(network) }) = self.jobs.remove(&pid) {
                        self.networks.give_back(thread, network);
                    }
                }
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

fn answer(socket: &OwnedFd, ready: &Ready) -> Result<(), Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("answering", error);
    let bytes = serde_json::to_vec(ready).map_err(|error| fail(&error))?;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], &[], MsgFlags::MSG_NOSIGNAL, None)
        .map(drop)
        .map_err(|errno| fail(&errno))
}

/// A packet of the server.
struct Packet {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// One packet with its descriptors; `None` at the end.
fn receive(socket: &OwnedFd) -> Result<Option<Packet>, Failure> {
    let fail = |errno| Failure::new("reading a packet", errno);
    let mut bytes = vec![0; MAX_PACKET];
    let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other.map_err(fail)?,
        }
    };
    let mut fds = Vec::new();
    for control in message.cmsgs().map_err(fail)? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            fds.extend(numbers.into_iter().map(sys::own_fd));
        }
    }
    let length = message.bytes;
    if length == 0 {
        return Ok(None);
    }
    bytes.truncate(length);
    Ok(Some(Packet { bytes, fds }))
}
