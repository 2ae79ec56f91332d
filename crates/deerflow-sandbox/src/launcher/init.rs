//! Pid 1 of a job: sets the sandbox up, starts the shell, reaps, watches the server and the memory, and takes everything with
//! it when it exits.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use seccompiler::BpfProgram;

use super::{confine, root, seccomp, sys};
use crate::protocol::{Failure, INSIDE_HOME, Job, Report};

const MAX_JOB: u32 = 8 << 20;
const MEMORY_CHECK_MS: u16 = 100;

/// The descriptors of a job.
pub(super) struct Channels {
    pub control: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub mounts: Vec<OwnedFd>,
}

/// Runs as pid 1. Its exit makes the kernel kill every other process of the sandbox.
pub(super) fn main(channels: Channels, template: &Path, filters: &[BpfProgram]) -> ! {
    let Channels { control, stdout, stderr, mounts } = channels;
    let mut control = File::from(control);
    let report = match start(&mut control, stdout, stderr, mounts, template, filters) {
        Ok((shell, memory_limit)) => supervise(&control, shell, memory_limit),
        Err(failure) => Some(Report::Failed(failure)),
    };
    if let Some(report) = report.and_then(|report| serde_json::to_vec(&report).ok()) {
        // The server may be gone; then nobody wants to know.
        let _ = control.write_all(&report);
    }
    sys::exit_now(0)
}

fn start(
    control: &mut File,
    stdout: OwnedFd,
    stderr: OwnedFd,
    mounts: Vec<OwnedFd>,
    template: &Path,
    filters: &[BpfProgram],
) -> Result<(Pid, u64), Failure> {
    let io = |error: std::io::Error| Failure::new("preparing the job", error);
    let errno = |errno: nix::errno::Errno| Failure::new("preparing the job", errno);
    let null = File::open("/dev/null").map_err(io)?;
    nix::unistd::dup2_stdin(&null).map_err(errno)?;
    nix::unistd::dup2_stdout(&stdout).map_err(errno)?;
    nix::unistd::dup2_stderr(&stderr).map_err(errno)?;
    drop((stdout, stderr, null));
    let _ = nix::unistd::setsid();
    let job = read_job(control)?;

    nix::unistd::sethostname("sandbox").map_err(|errno| Failure::new("setting the host name", errno))?;
    sys::loopback_up().map_err(|error| Failure::new("starting loopback", error))?;
    root::enter(template, &job.mounts, &mounts)?;
    drop(mounts);
    // A further user namespace: nothing inside has any capability over the mounts and namespaces just made.
    confine::enter_user_namespace(CloneFlags::empty())?;
    confine::drop_capabilities()?;
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let writable: Vec<&str> =
        job.mounts.iter().filter(|mount| !mount.read_only).map(|mount| mount.target.as_str()).collect();
    confine::landlock(&writable)?;
    // Pid 1 cannot be inspected or traced from inside, although it has the same user.
    nix::sys::prctl::set_dumpable(false).map_err(errno)?;
    seccomp::install(filters)?;

    let program = Program::new(&job)?;
    // The signal must be blocked before there is a child that can send it.
    SigSet::from(Signal::SIGCHLD).thread_block().map_err(errno)?;
    // The filter refuses clone3, so this is the old fork.
    match fork().map_err(errno)? {
        Some(shell) => {
            detach_output().map_err(io)?;
            Ok((shell, job.limits.memory_bytes))
        }
        None => program.run(&job),
    }
}

/// Plain fork.
fn fork() -> nix::Result<Option<Pid>> {
    // SAFETY: pid 1 is single-threaded; the child may do anything.
    #[expect(unsafe_code, reason = "fork is unsafe in threaded programs only")]
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Some(child)),
        nix::unistd::ForkResult::Child => Ok(None),
    }
}

/// Pid 1 lets go of the command's pipes.
fn detach_output() -> std::io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
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

/// What the shell is started with, prepared before the fork.
struct Program {
    shell: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    fn new(job: &Job) -> Result<Self, Failure> {
        let fail = |error: std::ffi::NulError| Failure::new("preparing the job", error);
        let shell = if Path::new("/bin/bash").exists() { c"/bin/bash" } else { c"/bin/sh" };
        let args = vec![shell.to_owned(), c"-c".to_owned(), CString::new(job.command.as_str()).map_err(fail)?];
        let env = job.env.iter().map(|(name, value)| CString::new(format!("{name}={value}"))).collect::<Result<_, _>>();
        Ok(Self { shell: shell.to_owned(), args, env: env.map_err(fail)? })
    }

    /// In the child: limits, working directory, exec.
    fn run(&self, job: &Job) -> ! {
        let message = self.try_run(job);
        let _ = writeln!(std::io::stderr(), "sandbox: {message}");
        sys::exit_now(127)
    }

    fn try_run(&self, job: &Job) -> String {
        let _ = nix::unistd::setsid();
        let none = SigSet::empty();
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&none), None);
        sys::default_sigpipe();
        if let Err(failure) = confine::limit(&job.limits) {
            return format!("{}: {}", failure.step, failure.message);
        }
        if std::env::set_current_dir(&job.cwd).is_err() && std::env::set_current_dir(INSIDE_HOME).is_err() {
            return format!("cannot enter {}", job.cwd);
        }
        sys::close_from(3);
        let args: Vec<&std::ffi::CStr> = self.args.iter().map(CString::as_c_str).collect();
        let errno = sys::exec(&self.shell, &args, &self.env);
        format!("cannot execute {}: {errno}", self.shell.to_string_lossy())
    }
}

/// Waits for the shell, the server's end of file, or too much memory.
fn supervise(control: &File, shell: Pid, memory_limit: u64) -> Option<Report> {
    let signals =
        SignalFd::with_flags(&SigSet::from(Signal::SIGCHLD), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).ok()?;
    let timeout = if memory_limit > 0 { PollTimeout::from(MEMORY_CHECK_MS) } else { PollTimeout::NONE };
    loop {
        let mut fds =
            [PollFd::new(signals.as_fd(), PollFlags::POLLIN), PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) if memory_in_use(memory_limit) > memory_limit => return Some(Report::OutOfMemory),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return None,
        }
        // The server says nothing after the job: whatever comes is its end.
        if fds[1].revents().is_some_and(|events| !events.is_empty()) {
            return None;
        }
        while let Ok(Some(_)) = signals.read_signal() {}
        if let Some(report) = reap(shell) {
            return Some(report);
        }
    }
}

/// Collects the dead; the shell's status if it is among them.
fn reap(shell: Pid) -> Option<Report> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == shell => return Some(Report::Exited(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == shell => return Some(Report::Signalled(signal as i32)),
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return None,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Bytes that the processes of this sandbox use. Pages they share are counted once, but only when the quick sum is too much.
fn memory_in_use(limit: u64) -> u64 {
    let pids: Vec<OsString> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_str().is_some_and(|name| name != "1" && name.bytes().all(|b| b.is_ascii_digit())))
        .collect();
    let quick: u64 = pids.iter().map(resident).sum::<u64>() + segments();
    if quick <= limit {
        return quick;
    }
    pids.iter().map(|pid| proportional(pid).unwrap_or_else(|| resident(pid))).sum::<u64>() + segments()
}

fn resident(pid: &OsString) -> u64 {
    let text = fs::read_to_string(Path::new("/proc").join(pid).join("statm")).unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u64::try_from(size).ok());
    pages * page.unwrap_or(4096)
}

fn proportional(pid: &OsString) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc").join(pid).join("smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// System V segments keep their memory while nobody has them attached.
fn segments() -> u64 {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let mut lines = text.lines();
    let Some(column) = lines.next().and_then(|head| head.split_whitespace().position(|name| name == "rss")) else {
        return 0;
    };
    lines.filter_map(|line| line.split_whitespace().nth(column)?.parse::<u64>().ok()).sum()
}
