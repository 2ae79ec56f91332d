//! Network namespaces made ahead: making one is the slowest part of a sandbox.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;

use nix::sched::CloneFlags;

use super::sys;

/// Unused networks to have ready.
const AHEAD: usize = super::ahead::AHEAD;
/// Networks kept for the next command of their thread.
const KEPT: usize = 64;

/// Networks for jobs. A thread may get one of its own earlier commands again, when no process is left in it; never another
/// thread's.
#[derive(Debug, Default)]
pub(super) struct NetworkPool {
    fresh: Vec<OwnedFd>,
    /// Oldest first.
    used: VecDeque<(String, OwnedFd)>,
    failed: bool,
}

impl NetworkPool {
    /// Nothing needs to be made ahead.
    pub(super) fn is_full(&self) -> bool {
        self.failed || self.fresh.len() >= AHEAD
    }

    /// One for a job of this thread; without it the job makes its own.
    pub(super) fn take(&mut self, thread: &str) -> Option<OwnedFd> {
        let known = self.used.iter().rposition(|(owner, _)| owner == thread);
        if let Some((_, network)) = known.and_then(|at| self.used.remove(at)) {
            return Some(network);
        }
        self.fresh.pop()
    }

    /// Takes back the network of a job whose last process is gone.
    pub(super) fn give_back(&mut self, thread: String, network: OwnedFd) {
        if self.used.len() >= KEPT {
            self.used.pop_front();
        }
        self.used.push_back((thread, network));
    }

    /// Makes one. This process moves into it, which does not matter: it uses no network.
    pub(super) fn add(&mut self) {
        let made = nix::sched::unshare(CloneFlags::CLONE_NEWNET)
            .map_err(std::io::Error::from)
            .and_then(|()| sys::loopback_up())
            .and_then(|()| File::open("/proc/self/ns/net"));
        match made {
            Ok(network) => self.fresh.push(network.into()),
            // Jobs make their own, and say what is wrong.
            Err(_) => self.failed = true,
        }
    }

    pub(super) fn clear(&mut self) {
        self.fresh.clear();
        self.used.clear();
    }
}
