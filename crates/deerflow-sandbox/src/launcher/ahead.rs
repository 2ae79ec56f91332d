//! Processes made ahead: pid 1 of sandboxes that nobody has asked for yet.
//!
//! They have their namespaces and the read-only root, and nothing of any thread. Each is used once.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;

use super::init::Channels;
use super::packets::{self, Packet};

/// How many wait.
pub(super) const AHEAD: usize = 16;
/// What a packet says of its descriptors, which are the control socket, perhaps these two, then the mounts.
const NETWORK: u8 = 1;
const CGROUP: u8 = 2;

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    waiting: VecDeque<(Pid, OwnedFd)>,
    /// One could not be made: no more are.
    failed: bool,
}

impl Ahead {
    /// None needs to be made.
    pub(super) fn is_full(&self) -> bool {
        self.failed || self.waiting.len() >= AHEAD
    }

    pub(super) fn add(&mut self, pid: Pid, socket: OwnedFd) {
        self.waiting.push_back((pid, socket));
    }

    /// Stops making more.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Notes that a process is gone, if it is one of these. None goes by itself unless something is wrong.
    pub(super) fn forget(&mut self, gone: Pid) {
        let before = self.waiting.len();
        self.waiting.retain(|(pid, _)| *pid != gone);
        self.failed |= self.waiting.len() < before;
    }

    /// Gives a sandbox's descriptors to one that waits, if any does: which it is.
    pub(super) fn assign(&mut self, channels: &Channels) -> Option<Pid> {
        let Channels { control, network, cgroup, mounts } = channels;
        let kind = if network.is_some() { NETWORK } else { 0 } | if cgroup.is_some() { CGROUP } else { 0 };
        let fds: Vec<_> =
            std::iter::once(control).chain(network).chain(cgroup).chain(mounts).map(AsFd::as_fd).collect();
        while let Some((pid, socket)) = self.waiting.pop_front() {
            // One that has died meanwhile cannot take it.
            if packets::send(&socket, &[kind], &fds).is_ok() {
                return Some(pid);
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// The two ends over which a process made ahead gets its descriptors: the launcher's and its own.
pub(super) fn ends() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// Waits, in such a process, for its descriptors; `None` when the launcher is gone.
pub(super) fn wait(socket: &OwnedFd) -> Option<Channels> {
    let Packet { bytes, fds } = packets::receive(socket).ok()??;
    let mut fds = fds.into_iter();
    let control = fds.next()?;
    let kind = *bytes.first()?;
    let network = if kind & NETWORK != 0 { Some(fds.next()?) } else { None };
    let cgroup = if kind & CGROUP != 0 { Some(fds.next()?) } else { None };
    Some(Channels { control, network, cgroup, mounts: fds.collect() })
}
