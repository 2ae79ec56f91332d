//! System calls that have no safe wrapper in our dependencies.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

/// Mount attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes(u64);

impl Attributes {
    pub(super) const NOSUID_NODEV: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    pub(super) const READ_ONLY: Self = Self(Self::NOSUID_NODEV.0 | libc::MOUNT_ATTR_RDONLY);
}

/// Adds attributes to a mount and all mounts beneath it, and makes them private.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, attributes: Attributes, recursive: bool) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: attributes.0, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, `attr` lives through the call and its size is passed with it.
    #[expect(unsafe_code, reason = "no safe wrapper for mount_setattr")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `fork` with further clone flags. `None` in the child.
///
/// The caller must be single-threaded: the child goes on with a copy of this thread alone.
pub(super) fn fork_with(flags: i32) -> io::Result<Option<Pid>> {
    // SAFETY: an all-zero clone_args is valid: no stack (share none), no tid or pidfd pointers.
    #[expect(unsafe_code, reason = "plain data")]
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(flags.cast_unsigned());
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: without CLONE_VM the child has its own copy of all memory, as after fork; the launcher is single-threaded, so no
    // lock is held by a thread that is not there.
    #[expect(unsafe_code, reason = "no safe wrapper for clone3")]
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX)))),
    }
}

/// Takes ownership of a descriptor that the kernel just gave this process.
pub(super) fn own_fd(fd: i32) -> OwnedFd {
    // SAFETY: the only callers pass descriptors from a received SCM_RIGHTS message or our own standard input, once each.
    #[expect(unsafe_code, reason = "descriptors arrive as numbers")]
    unsafe {
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sets the loopback interface up.
pub(super) fn loopback_up() -> io::Result<()> {
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero ifreq is valid.
    #[expect(unsafe_code, reason = "plain data")]
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which lives through the call.
    #[expect(unsafe_code, reason = "no safe wrapper for this ioctl")]
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Version of the landlock interface, 0 when there is none.
pub(super) fn landlock_version() -> i64 {
    // SAFETY: with this flag the call reads nothing and returns the version.
    #[expect(unsafe_code, reason = "no safe wrapper that reports the version")]
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, 1u32) };
    version.max(0)
}

/// Sets what a signal does.
pub(super) fn set_action(signal: Signal, action: &nix::sys::signal::SigAction) -> nix::Result<()> {
    // SAFETY: the only caller sets the default action: no handler runs.
    #[expect(unsafe_code, reason = "a handler could be unsound")]
    unsafe { nix::sys::signal::sigaction(signal, action) }.map(drop)
}

/// Closes every descriptor from `first` up.
///
/// The caller must own none of them through a type that would close it again.
pub(super) fn close_from(first: u32) {
    // SAFETY: called first thing in `main`, when nothing in this process has opened or taken such a descriptor yet.
    #[expect(unsafe_code, reason = "no safe wrapper for close_range")]
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Starts a program in a session of its own, with no signal blocked and SIGPIPE as usual (the Rust runtime ignores it, and
/// `yes | head` must end quietly). The child borrows this process's memory until it executes, so nothing is copied.
pub(super) fn spawn(program: &CStr, args: &[&CStr], env: &[CString]) -> nix::Result<Pid> {
    use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
    let mut attributes = PosixSpawnAttr::init()?;
    let set_session = PosixSpawnFlags::from_bits_retain(libc::POSIX_SPAWN_SETSID as _);
    attributes
        .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | set_session)?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    posix_spawn(program, &PosixSpawnFileActions::init()?, &attributes, args, env)
}

/// Ends this process at once, without running exit handlers.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit is always sound.
    #[expect(unsafe_code, reason = "no safe wrapper")]
    unsafe {
        libc::_exit(code)
    }
}
