//! The launcher's main loop: takes asks, gives each a pid 1, and keeps their control sockets until they are gone.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::io::FdFlags;
use seccompiler::BpfProgram;

use super::ahead::{self, Ahead};
use super::init::{self, Channels};
use super::network::NetworkPool;
use super::packets::{self, Packet};
use super::{confine, root, seccomp, sys, template};
use crate::protocol::{Ask, Ended, Failure, Ready, Report, Setup, Source};

const NAMESPACES: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
/// How long after the last ask something is made ahead: the commands come first.
const QUIET: Duration = Duration::from_millis(20);
/// The same at the start, when the server has much to do.
const QUIET_AT_START: Duration = Duration::from_millis(300);

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

/// What every sandbox needs of the launcher.
struct Zygote {
    template: PathBuf,
    filter: BpfProgram,
    networks: NetworkPool,
    ahead: Ahead,
    signals: SignalFd,
    sandboxes: HashMap<Pid, Living>,
    /// Nothing is made ahead before this.
    quiet_at: Instant,
}

/// What is kept until the sandbox's last process is gone.
struct Living {
    /// Tells the server, by closing.
    _control: OwnedFd,
    thread: String,
    network: Option<OwnedFd>,
}

fn run(socket: &OwnedFd) -> Result<(), Failure> {
    let Some(packet) = packets::receive(socket)? else { return Ok(()) };
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
    let filter = seccomp::compile(seccomp::Walls::Namespaces)?;
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
    let zygote = Zygote {
        template,
        filter,
        networks: NetworkPool::default(),
        ahead: Ahead::default(),
        signals,
        sandboxes: HashMap::new(),
        quiet_at: Instant::now() + QUIET_AT_START,
    };
    zygote.serve(socket)
}

impl Zygote {
    fn serve(mut self, socket: &OwnedFd) -> Result<(), Failure> {
        loop {
            let mut fds =
                [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN), PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            let timeout = if self.networks.is_full() && self.ahead.is_full() {
                PollTimeout::NONE
            } else {
                self.quiet_at.saturating_duration_since(Instant::now()).try_into().unwrap_or(PollTimeout::ZERO)
            };
            let ready = poll(&mut fds, timeout);
            let [signalled, asked] = fds.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            match ready {
                // Made when there is nothing else to do.
                Ok(0) => self.make_ahead(),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Failure::new("waiting", errno)),
            }
            if signalled {
                while let Ok(Some(_)) = self.signals.read_signal() {}
                self.reap();
            }
            if asked {
                match packets::receive(socket)? {
                    // The server is gone; so are, by their own control sockets, the sandboxes.
                    None => return Ok(()),
                    Some(Packet { bytes, fds }) => self.start(&bytes, fds),
                }
                self.quiet_at = Instant::now() + QUIET;
            }
        }
    }

    /// Makes a sandbox for the server's ask, or tells it why not.
    fn start(&mut self, ask: &[u8], mut fds: Vec<OwnedFd>) {
        if fds.is_empty() {
            return;
        }
        let passed = fds.split_off(1);
        let Some(control) = fds.pop() else { return };
        let refuse = |control: &OwnedFd, failure| {
            if let Ok(mut line) = serde_json::to_vec(&Ended { report: Report::Failed(failure), ready: false }) {
                line.push(b'\n');
                // The server may be gone; then nobody wants to know.
                let _ = nix::unistd::write(control, &line);
            }
        };
        let Asked { thread, cgroup, mounts } = match open(ask, passed) {
            Ok(asked) => asked,
            Err(failure) => return refuse(&control, failure),
        };
        let network = self.networks.take(&thread);
        let channels = Channels { control, network, cgroup, mounts };
        let pid = match self.ahead.assign(&channels) {
            Some(pid) => pid,
            None => match sys::fork_with(NAMESPACES) {
                Ok(None) => {
                    self.let_go();
                    init::main(&self.template, &self.filter, || Some(channels))
                }
                Ok(Some(pid)) => pid,
                Err(error) => return refuse(&channels.control, Failure::new("creating namespaces", error)),
            },
        };
        let Channels { control, network, .. } = channels;
        self.sandboxes.insert(pid, Living { _control: control, thread, network });
    }

    fn make_ahead(&mut self) {
        if !self.networks.is_full() {
            self.networks.add();
        }
        if self.ahead.is_full() {
            return;
        }
        let Ok((ours, theirs)) = ahead::ends() else { return self.ahead.fail() };
        match sys::fork_with(NAMESPACES) {
            Ok(None) => {
                drop(ours);
                self.let_go();
                init::main(&self.template, &self.filter, || ahead::wait(&theirs))
            }
            Ok(Some(pid)) => self.ahead.add(pid, ours),
            // Sandboxes are then made when they are asked for, and say what is wrong.
            Err(_) => self.ahead.fail(),
        }
    }

    /// In a new process: nothing of other sandboxes may stay with it.
    fn let_go(&mut self) {
        self.sandboxes.clear();
        self.networks.clear();
        self.ahead.clear();
    }

    /// Lets go of the control sockets of sandboxes that are gone, and of their last process: the server then sees end of file.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => match self.sandboxes.remove(&pid) {
                    Some(Living { thread, network: Some(network), .. }) => self.networks.give_back(thread, network),
                    Some(_) => {}
                    None => self.ahead.forget(pid),
                },
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// An ask that is understood.
struct Asked {
    thread: String,
    cgroup: Option<OwnedFd>,
    /// All of them, those that the server did not make included.
    mounts: Vec<OwnedFd>,
}

fn open(ask: &[u8], mut passed: Vec<OwnedFd>) -> Result<Asked, Failure> {
    let ask: Ask = serde_json::from_slice(ask).map_err(|error| Failure::new("reading a packet", error))?;
    let missing = || Failure::new("reading a packet", "descriptor missing");
    let cgroup = match ask.cgroup {
        true if passed.is_empty() => return Err(missing()),
        true => Some(passed.remove(0)),
        false => None,
    };
    let mut passed: Vec<Option<OwnedFd>> = passed.into_iter().map(Some).collect();
    let tree = |source: Source| match source {
        Source::Passed(index) => passed.get_mut(index).and_then(Option::take).ok_or_else(missing),
        Source::Path(path) => root::detached(&path),
    };
    let mounts = ask.sources.into_iter().map(tree).collect::<Result<_, _>>()?;
    Ok(Asked { thread: ask.thread, cgroup, mounts })
}

fn answer(socket: &OwnedFd, ready: &Ready) -> Result<(), Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("answering", error);
    let bytes = serde_json::to_vec(ready).map_err(|error| fail(&error))?;
    packets::send(socket, &bytes, &[]).map_err(|errno| fail(&errno))
}
