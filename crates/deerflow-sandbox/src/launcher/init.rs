//! Pid 1 of a sandbox: sets it up, runs one command after the other for its thread, and takes everything with it when it exits.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use seccompiler::BpfProgram;

use super::job::{self, Received};
use super::{confine, root, seccomp, supervise, sys};
use crate::egress::inside;
use crate::protocol::{Ended, Failure, Job, Report, TAKEN};

const CANNOT_EXECUTE: i32 = 127;

/// What the server and the launcher give a sandbox.
pub(super) struct Channels {
    pub control: OwnedFd,
    /// A network made ahead; without it this process makes its own.
    pub network: Option<OwnedFd>,
    /// The entry of a cgroup to move into.
    pub cgroup: Option<OwnedFd>,
    /// Detached mounts, in the order of the first job's.
    pub mounts: Vec<OwnedFd>,
}

/// Runs as pid 1. Its exit makes the kernel kill every other process of the sandbox.
///
/// `channels` waits for them, when this process was made ahead; it gives none when none will come.
pub(super) fn main(template: &Path, filter: &BpfProgram, channels: impl FnOnce() -> Option<Channels>) -> ! {
    let prepared = prepare(template);
    if let Some(Channels { control, network, cgroup, mounts }) = channels() {
        let mut control = UnixStream::from(control);
        let served = prepared.and_then(|()| join(cgroup)).and_then(|()| serve(&mut control, network, mounts, filter));
        if let Err(failure) = served {
            let _ = tell(&mut control, &Ended { report: Report::Failed(failure), ready: false });
        }
    }
    sys::exit_now(0)
}

/// All that can be done before it is known for whom.
fn prepare(template: &Path) -> Result<(), Failure> {
    // The launcher's own input is the server's socket, which must end with the launcher.
    let null = File::open("/dev/null").map_err(|error| Failure::new("preparing the job", error))?;
    redirect(nix::unistd::dup2_stdin, null)?;
    let _ = nix::unistd::setsid();
    nix::unistd::sethostname("sandbox").map_err(|errno| Failure::new("setting the host name", errno))?;
    root::enter(template)
}

/// Moves this process into its cgroup. It may, since the server opened the entry.
pub(super) fn join(cgroup: Option<OwnedFd>) -> Result<(), Failure> {
    let Some(entry) = cgroup else { return Ok(()) };
    File::from(entry).write_all(b"0").map_err(|error| Failure::new("entering the cgroup", error))
}

/// One job after the other, as long as the server has any. The first one sets the sandbox up.
fn serve(
    control: &mut UnixStream,
    network: Option<OwnedFd>,
    mounts: Vec<OwnedFd>,
    filter: &BpfProgram,
) -> Result<(), Failure> {
    let Some(mut received) = take(control)? else { return Ok(()) };
    confine_for(&received.job, network, mounts, filter)?;
    // The signal must be blocked before there is a child that can send it.
    let mask = SigSet::from(Signal::SIGCHLD);
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|errno| Failure::new("preparing the job", errno))?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| Failure::new("preparing the job", error))?;
    redirect(nix::unistd::dup2_stdin, &null)?;
    loop {
        let Received { mut job, stdout, stderr, cgroup: _ } = received;
        redirect(nix::unistd::dup2_stdout, stdout)?;
        redirect(nix::unistd::dup2_stderr, stderr)?;
        if job.proxy {
            let opened = inside::open(control.as_fd());
            let variables = opened.map_err(|error| Failure::new("opening the network", error))?;
            inside::add(&mut job.env, variables);
        }
        let shell = start_shell(&job)?;
        // The pipes shall end with the command.
        redirect(nix::unistd::dup2_stdout, &null)?;
        redirect(nix::unistd::dup2_stderr, &null)?;
        let report = match shell {
            Some(shell) => supervise::supervise(control, &signals, shell, job.limits.memory_bytes),
            None => Some(Report::Exited(CANNOT_EXECUTE)),
        };
        let Some(report) = report else { return Ok(()) };
        let may_stay = job.stay && matches!(report, Report::Exited(_) | Report::Signalled(_));
        let ready = may_stay && supervise::clear_away(&signals);
        if tell(control, &Ended { report, ready }).is_err() || !ready {
            return Ok(());
        }
        match take(control)? {
            Some(next) => received = next,
            None => return Ok(()),
        }
    }
}

/// Waits for a job and takes it on.
pub(super) fn take(control: &mut UnixStream) -> Result<Option<Received>, Failure> {
    let received = job::receive(control)?;
    if received.is_some() {
        // From here on the server must not start the job a second time.
        control.write_all(TAKEN).map_err(|error| Failure::new("taking the job", error))?;
    }
    Ok(received)
}

pub(super) fn tell(control: &mut UnixStream, ended: &Ended) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(ended)?;
    line.push(b'\n');
    // The server may be gone; then nobody wants to know.
    control.write_all(&line)
}

/// Gives this process, and so the shell, a descriptor as one of the standard ones.
fn redirect<F: AsFd>(dup: impl Fn(F) -> nix::Result<()>, fd: F) -> Result<(), Failure> {
    dup(fd).map_err(|errno| Failure::new("preparing the job", errno))
}

/// Locks this process in, for good.
fn confine_for(job: &Job, network: Option<OwnedFd>, mounts: Vec<OwnedFd>, filter: &BpfProgram) -> Result<(), Failure> {
    match network {
        Some(network) => nix::sched::setns(&network, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Failure::new("entering the network", errno))?,
        None => {
            nix::sched::unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| Failure::new("making a network", errno))?;
            sys::loopback_up().map_err(|error| Failure::new("starting loopback", error))?;
        }
    }
    root::attach(&job.mounts, &mounts)?;
    drop(mounts);
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
    confine::limit(&job.limits)
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
    let path = job.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
    // Should a plain program not start (a script without an interpreter line), the shell knows what to do.
    let direct = super::words::plain(&job.command, path)
        .and_then(|(program, words)| sys::spawn(&program, &super::words::borrowed(&words), &env).ok());
    let started = direct.map_or_else(|| sys::spawn(shell, &[shell, c"-c", &command], &env), Ok);
    // This process shall hold no directory while it waits.
    let _ = std::env::set_current_dir("/");
    match started {
        Ok(pid) => Ok(Some(pid)),
        Err(errno) => {
            let _ = writeln!(std::io::stderr(), "sandbox: cannot execute {}: {errno}", shell.to_string_lossy());
            Ok(None)
        }
    }
}
