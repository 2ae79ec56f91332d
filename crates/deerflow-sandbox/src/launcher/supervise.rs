//! Watching a command from the shell's start to the death of its last process.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::memory::MemoryWatch;
use crate::protocol::Report;

const LINGER: Duration = Duration::from_millis(200);
/// How long the dead may take before the whole sandbox is ended instead.
const CLEAR: Duration = Duration::from_millis(500);

/// Waits for the shell, the server's end of file, or too much memory. The memory is looked at when its time has come, however
/// often a child's death wakes this process. `None`: the server is gone.
pub(super) fn supervise(control: &UnixStream, signals: &SignalFd, shell: Pid, memory_limit: u64) -> Option<Report> {
    let mut watch = (memory_limit > 0).then(|| MemoryWatch::new(memory_limit));
    loop {
        let timeout = match &watch {
            Some(watch) => watch.left().try_into().unwrap_or(PollTimeout::ZERO),
            None => PollTimeout::NONE,
        };
        let mut fds =
            [PollFd::new(signals.as_fd(), PollFlags::POLLIN), PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return None,
        }
        // The server says nothing while a job runs: whatever comes is its end.
        if fds[1].revents().is_some_and(|events| !events.is_empty()) {
            return None;
        }
        if watch.as_mut().is_some_and(MemoryWatch::exceeded) {
            return Some(Report::OutOfMemory);
        }
        // One read takes all that is pending: equal signals are one.
        let _ = signals.read_signal();
        if let Some(report) = reap(shell, watch.as_ref()) {
            linger(signals, control);
            return Some(report);
        }
    }
}

/// Lets what the shell left in the background finish a last line: `echo A && sleep 300 & echo B` shall show both. It costs
/// nothing when nothing is left.
fn linger(signals: &SignalFd, control: &UnixStream) {
    let deadline = Instant::now() + LINGER;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {}
            // Children may die without end, faster than they are collected.
            Ok(_) if left.is_zero() => return,
            Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return,
        }
        let Ok(timeout) = PollTimeout::try_from(left) else { return };
        let mut fds =
            [PollFd::new(signals.as_fd(), PollFlags::POLLIN), PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut fds, timeout);
        if !matches!(ready, Ok(1..) | Err(nix::errno::Errno::EINTR)) || fds[1].revents().is_some_and(|e| !e.is_empty())
        {
            return;
        }
        while let Ok(Some(_)) = signals.read_signal() {}
    }
}

/// Collects the dead; the shell's status if it is among them. Stops in between when the memory must be looked at: the rest
/// is collected after that.
fn reap(shell: Pid, watch: Option<&MemoryWatch>) -> Option<Report> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == shell => return Some(Report::Exited(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == shell => return Some(Report::Signalled(signal as i32)),
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return None,
            Ok(_) | Err(nix::errno::Errno::EINTR) if watch.is_some_and(|watch| watch.left().is_zero()) => return None,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends every process of the sandbox but this one, which is pid 1 in it. True if none is left, and nothing in shared memory
/// either, so that a further command finds what the first one found. Every process is a descendant of pid 1, and those whose
/// parent died are its children: without children it is alone.
pub(super) fn clear_away(signals: &SignalFd) -> bool {
    // Anywhere else the signal below would reach others.
    if Pid::this().as_raw() != 1 {
        return false;
    }
    let deadline = Instant::now() + CLEAR;
    let any_child = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
    loop {
        match waitpid(None, Some(any_child)) {
            Err(nix::errno::Errno::ECHILD) => return nothing_kept(),
            Ok(WaitStatus::StillAlive) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                // Everything that this process may signal: the sandbox without pid 1.
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
                // A look now and then: a child may die between the look and the wait.
                let pause = left.min(Duration::from_millis(5));
                let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO));
                let _ = signals.read_signal();
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) if Instant::now() < deadline => {}
            Ok(_) | Err(_) => return false,
        }
    }
}

/// Files in shared memory and System V objects outlive their processes.
fn nothing_kept() -> bool {
    let empty = |path: &str| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    // A heading, and a line for each.
    let headed = |path: &str| fs::read_to_string(path).map_or(true, |text| text.lines().count() <= 1);
    empty("/dev/shm") && ["/proc/sysvipc/shm", "/proc/sysvipc/sem"].into_iter().all(headed)
}
