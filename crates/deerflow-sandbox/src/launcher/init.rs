//! Pid 1 of a job: sets the sandbox up, starts the shell, reaps, watches the server and the memory, and takes everything with
//! it when it exits.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use seccompiler::BpfProgram;

use super::memory::MemoryWatch;
use super::{confine, root, seccomp, sys};
use crate::egress::inside;
use crate::protocol::{Failure, Job, Report, TAKEN};

const MAX_JOB: u32 = 8 << 20;
const LINGER: Duration = Duration::from_millis(200);
const CANNOT_EXECUTE: i32 = 127;

/// The descriptors of a job.
pub(super) struct Channels {
    pub control: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// A network made ahead; without it this process is already in one of its own.
    pub network: Option<OwnedFd>,
    pub mounts: Vec<OwnedFd>,
}

/// Runs as pid 1. Its exit makes the kernel kill every other process of the sandbox.
pub(super) fn main(channels: Channels, template: &Path, filter: &BpfProgram) -> ! {
    let Channels { control, stdout, stderr, network, mounts } = channels;
    let mut control = File::from(control);
    let outcome = redirect(stdout, stderr)
        .and_then(|()| confined(&mut control, network, mounts, template, filter))
        .and_then(|job| Ok((start_shell(&job)?, job.limits.memory_bytes)));
    let report = match outcome {
        Ok((Some(shell), memory_limit)) => supervise(&control, shell, memory_limit),
        Ok((None, _)) => Some(Report::Exited(CANNOT_EXECUTE)),
        Err(failure) => Some(Report::Failed(failure)),
    };
    if let Some(report) = report.and_then(|report| serde_json::to_vec(&report).ok()) {
        // The server may be gone; then nobody wants to know.
        let _ = control.write_all(&report);
    }
    sys::exit_now(0)
}

/// Gives this process, and so the shell, the command's pipes.
fn redirect(stdout: OwnedFd, stderr: OwnedFd) -> Result<(), Failure> {
    let fail = |errno| Failure::new("preparing the job", errno);
    nix::unistd::dup2_stdout(&stdout).map_err(fail)?;
    nix::unistd::dup2_stderr(&stderr).map_err(fail)
}

/// Gives this process, and so the shell, an empty input: that of the sandbox, not the host's device.
fn empty_input() -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::new("preparing the job", error);
    let null = File::open("/dev/null").map_err(fail)?;
    nix::unistd::dup2_stdin(&null).map_err(|errno| fail(errno.into()))
}

/// Reads the job and locks this process in, for good.
fn confined(
    control: &mut File,
    network: Option<OwnedFd>,
    mounts: Vec<OwnedFd>,
    template: &Path,
    filter: &BpfProgram,
) -> Result<Job, Failure> {
    let mut job = read_job(control)?;
    // From here on the server must not start the job a second time.
    control.write_all(TAKEN).map_err(|error| Failure::new("taking the job", error))?;
    let _ = nix::unistd::setsid();
    nix::unistd::sethostname("sandbox").map_err(|errno| Failure::new("setting the host name", errno))?;
    match network {
        Some(network) => nix::sched::setns(&network, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Failure::new("entering the network", errno))?,
        None => sys::loopback_up().map_err(|error| Failure::new("starting loopback", error))?,
    }
    if job.proxy {
        let variables = inside::open(control.as_fd()).map_err(|error| Failure::new("opening the network", error))?;
        inside::add(&mut job.env, variables);
    }
    root::enter(template, &job.mounts, &mounts)?;
    drop(mounts);
    empty_input()?;
    // A further user namespace: nothing inside has any capability over the mounts and namespaces just made.
    confine::enter_user_namespace(CloneFlags::empty())?;
    confine::drop_capabilities()?;
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let writable: Vec<&str> =
        job.mounts.iter().filter(|mount| !mount.read_only).map(|mount| mount.target.as_str()).collect();
    confine::landlock(&writable)?;
    // Pid 1 cannot be inspected or traced from inside, although it has the same user.
    nix::sys::prctl::set_dumpable(false).map_err(|errno| Failure::new("preparing the job", errno))?;
    seccomp::install(filter)?;
    confine::limit(&job.limits)?;
    Ok(job)
}

/// Starts the shell; `None` if it cannot be executed, which its standard error then says.
fn start_shell(job: &Job) -> Result<Option<Pid>, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("starting the shell", error);
    if std::env::set_current_dir(&job.cwd).is_err() {
        let _ = writeln!(std::io::stderr(), "sandbox: cannot enter {}", job.cwd);
        return Ok(None);
    }
    let shell = if Path::new("/bin/bash").exists() { c"/bin/bash" } else { c"/bin/sh" };
    let command = CString::new(job.command.as_str()).map_err(|error| fail(&error))?;
    let env =
        job.env.iter().map(|(name, value)| CString::new(format!("{name}={value}"))).collect::<Result<Vec<_>, _>>();
    let env = env.map_err(|error| fail(&error))?;
    // The signal must be blocked before there is a child that can send it.
    SigSet::from(Signal::SIGCHLD).thread_block().map_err(|errno| fail(&errno))?;
    let path = job.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
    // Should a plain program not start (a script without an interpreter line), the shell knows what to do.
    let direct = super::words::plain(&job.command, path)
        .and_then(|(program, words)| sys::spawn(&program, &super::words::borrowed(&words), &env).ok());
    match direct.map_or_else(|| sys::spawn(shell, &[shell, c"-c", &command], &env), Ok) {
        Ok(pid) => {
            let null = File::options().write(true).open("/dev/null").map_err(|error| fail(&error))?;
            nix::unistd::dup2_stdout(&null).map_err(|errno| fail(&errno))?;
            nix::unistd::dup2_stderr(&null).map_err(|errno| fail(&errno))?;
            Ok(Some(pid))
        }
        Err(errno) => {
            let _ = writeln!(std::io::stderr(), "sandbox: cannot execute {}: {errno}", shell.to_string_lossy());
            Ok(None)
        }
    }
}

fn read_job(control: &mut File) -> Result<Job, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("reading the job", error);
    let mut length = [0; 4];
    control.read_exact(&mut length).map_err(|error| fail(&error))?;
    let length = u32::from_be_bytes(length);
    if length > MAX_JOB {
        return Err(fail(&"too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    control.read_exact(&mut bytes).map_err(|error| fail(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| fail(&error))
}

/// Waits for the shell, the server's end of file, or too much memory. The memory is looked at when its time has come, however
/// often a child's death wakes this process.
fn supervise(control: &File, shell: Pid, memory_limit: u64) -> Option<Report> {
    let signals =
        SignalFd::with_flags(&SigSet::from(Signal::SIGCHLD), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).ok()?;
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
        // The server says nothing after the job: whatever comes is its end.
        if fds[1].revents().is_some_and(|events| !events.is_empty()) {
            return None;
        }
        if watch.as_mut().is_some_and(MemoryWatch::exceeded) {
            return Some(Report::OutOfMemory);
        }
        // One read takes all that is pending: equal signals are one.
        let _ = signals.read_signal();
        if let Some(report) = reap(shell, watch.as_ref()) {
            linger(&signals, control);
            return Some(report);
        }
    }
}

/// Lets what the shell left in the background finish a last line: `echo A && sleep 300 & echo B` shall show both. It costs
/// nothing when nothing is left.
fn linger(signals: &SignalFd, control: &File) {
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
