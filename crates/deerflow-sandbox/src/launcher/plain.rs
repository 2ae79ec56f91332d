//! The last tier: a command as a plain process, held by landlock and the system call filter alone.
//!
//! This process watches over one command. It stays outside of the command's landlock domain, so that (where the kernel scopes
//! signals) the command cannot reach it, and inherits whatever the command leaves behind.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::io::FdFlags;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use super::job::Received;
use super::{confine, init, seccomp, supervise, sys};
use crate::protocol::{Ended, Failure, Job, Report};

/// How long what a command left may take to die.
const END: Duration = Duration::from_secs(3);

/// Runs the watching process; `uid` is the user to become, when started as root.
pub(super) fn main(uid: Option<u32>) -> ! {
    sys::close_from(3);
    let control = sys::own_fd(0);
    let _ = rustix::io::fcntl_setfd(&control, FdFlags::CLOEXEC);
    let mut control = UnixStream::from(control);
    let report = match serve(&mut control, uid) {
        Ok(report) => report,
        Err(failure) => Some(Report::Failed(failure)),
    };
    if let Some(report) = report {
        let _ = init::tell(&mut control, &Ended { report, ready: false });
    }
    sys::exit_now(0)
}

fn serve(control: &mut UnixStream, uid: Option<u32>) -> Result<Option<Report>, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("preparing the job", error);
    let Some(received) = init::take(control)? else { return Ok(None) };
    let Received { job, stdout, stderr, cgroup } = received;
    init::join(cgroup)?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    // Opened before this process loses the right to look into the directories above them.
    let rules = confine::PlainRules::open(&job.mounts)?;
    let filter = seccomp::compile(seccomp::Walls::None)?;
    if nix::unistd::geteuid().is_root() {
        // A container may have kept even this from its root; no_new_privs says the same.
        let _ = confine::drop_bounding_set();
        confine::drop_to(uid.unwrap_or(0))?;
    }
    confine::drop_own_capabilities()?;
    rustix::thread::set_no_new_privs(true).map_err(|errno| fail(&errno))?;
    nix::sys::prctl::set_child_subreaper(true).map_err(|errno| fail(&errno))?;
    // Cannot be inspected by the command, although it has the same user.
    nix::sys::prctl::set_dumpable(false).map_err(|errno| fail(&errno))?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(|error| fail(&error))?;
    let mask = SigSet::from(Signal::SIGCHLD);
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|errno| fail(&errno))?;
    let (mut trouble, trouble_writer) = std::io::pipe().map_err(|error| fail(&error))?;
    let shell = match sys::fork_with(0).map_err(|error| fail(&error))? {
        None => {
            let begun = streams(&null, &stdout, &stderr)
                .and_then(|()| rules.enforce())
                .and_then(|()| seccomp::install(&filter))
                .and_then(|()| confine::limit(&job.limits))
                .and_then(|()| execute(&job));
            if let Err(failure) = begun
                && let Ok(bytes) = serde_json::to_vec(&failure)
            {
                let mut trouble = trouble_writer;
                let _ = trouble.write_all(&bytes);
            }
            sys::exit_now(127)
        }
        Some(pid) => pid,
    };
    drop((trouble_writer, stdout, stderr, rules));
    // Ends when the shell is executed.
    let mut bytes = Vec::new();
    trouble.read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    let report = match serde_json::from_slice(&bytes) {
        Ok(failure) => Some(Report::Failed(failure)),
        // No look at the memory: this process cannot tell its own from others'.
        Err(_) => supervise::supervise(control, &signals, shell, 0),
    };
    if !end_all(&signals) {
        // The server's cgroup is the last resort.
        return Ok(None);
    }
    Ok(report)
}

fn streams(null: &File, stdout: &OwnedFd, stderr: &OwnedFd) -> Result<(), Failure> {
    let fail = |errno| Failure::new("preparing the job", errno);
    nix::unistd::dup2_stdin(null).map_err(fail)?;
    nix::unistd::dup2_stdout(stdout).map_err(fail)?;
    nix::unistd::dup2_stderr(stderr).map_err(fail)?;
    let _ = nix::unistd::setsid();
    // The Rust runtime ignores it, and `yes | head` must end quietly.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    sys::set_action(Signal::SIGPIPE, &default).map_err(fail)?;
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(fail)
}

fn execute(job: &Job) -> Result<(), Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("starting the shell", error);
    // The directory's name on the host is not told.
    std::env::set_current_dir(&job.cwd).map_err(|error| Failure::new("entering the directory", error.kind()))?;
    let shell = if Path::new("/bin/bash").exists() { c"/bin/bash" } else { c"/bin/sh" };
    let command = CString::new(job.command.as_str()).map_err(|error| fail(&error))?;
    let env = job.env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>().map_err(|error| fail(&error))?;
    let never: Result<Infallible, _> = nix::unistd::execve(shell, &[shell, c"-c", command.as_c_str()], &env);
    never.map(|_| ()).map_err(|errno| fail(&errno))
}

/// Ends all descendants; false if some do not go. Whoever loses its parent becomes a child of this process.
fn end_all(signals: &SignalFd) -> bool {
    let deadline = Instant::now() + END;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
            Err(nix::errno::Errno::ECHILD) => return true,
            Ok(WaitStatus::StillAlive) => {
                descendants().iter().for_each(end);
                let mut fds = [nix::poll::PollFd::new(signals.as_fd(), nix::poll::PollFlags::POLLIN)];
                let _ = nix::poll::poll(&mut fds, 2u8);
                let _ = signals.read_signal();
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return false,
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

/// A process as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pid: i32,
    parent: i32,
    start: u64,
}

fn look(pid: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have anything in it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Seen { pid, parent: fields.get(1)?.parse().ok()?, start: fields.get(19)?.parse().ok()? })
}

fn descendants() -> Vec<Seen> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut others: Vec<Seen> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(look).collect();
    let mut found: Vec<Seen> = Vec::new();
    let mut parents = vec![Pid::this().as_raw()];
    while let Some(parent) = parents.pop() {
        let (children, rest): (Vec<Seen>, Vec<Seen>) = others.into_iter().partition(|seen| seen.parent == parent);
        parents.extend(children.iter().map(|seen| seen.pid));
        found.extend(children);
        others = rest;
    }
    found
}

/// Kills a process by handle, if the handle is of the very process that was seen: its number may be another's by now.
fn end(seen: &Seen) {
    let pid = rustix::process::Pid::from_raw(seen.pid);
    let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    if look(seen.pid).is_some_and(|now| now.start == seen.start) {
        let _ = pidfd_send_signal(handle, rustix::process::Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grandchild_is_a_descendant_and_a_parent_is_not() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & wait"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let grandchild = loop {
            let found = descendants();
            assert!(found.iter().all(|seen| seen.pid != Pid::parent().as_raw() && seen.pid != 1));
            if let Some(seen) = found.iter().find(|seen| seen.parent == id) {
                break *seen;
            }
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        };
        end(&Seen { start: grandchild.start + 1, ..grandchild });
        assert!(child.try_wait().unwrap().is_none());
        end(&grandchild);
        child.wait().unwrap();
    }
}
