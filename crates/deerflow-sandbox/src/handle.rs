//! Directories by handle: what is done to one is done to that very directory, whatever its name leads to meanwhile.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// Sets the mode of what a handle (of any kind, `O_PATH` too) refers to.
pub(crate) fn set_mode(handle: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())
}

/// Opens a directory to read it, not through a link. Where its owner lacks one of the `needed` permissions, all are given.
pub(crate) fn open_dir(parent: impl AsFd, name: impl Arg, needed: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    let mode = rustix::fs::fstat(&path)?.st_mode & 0o7777;
    // The permissions do not bind root.
    if mode & needed != needed && !rustix::process::geteuid().is_root() {
        set_mode(&path, mode | 0o700)?;
    }
    rustix::fs::openat(&path, c".", flags | OFlags::RDONLY, Mode::empty())
}
