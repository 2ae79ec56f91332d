//! From a virtual path to an open directory and a name in it, one component at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use super::{FileKind, FileStat, Mount, ThreadFiles};
use crate::{SandboxError, VirtualPath};

const MAX_LINKS: usize = 40;
const PATH_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
// NONBLOCK: opening a FIFO must not wait for its other end.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Where a path leads once its links are resolved.
pub(super) struct Resolved<'a> {
    pub mount: &'a Mount,
    /// Directory that holds the name; the root of the mount when there is no name.
    pub dir: OwnedFd,
    /// `None`: the path is the root of the mount.
    pub name: Option<OsString>,
    /// What is there, if anything; never a link.
    pub stat: Option<Stat>,
    /// The path without links, as a virtual path.
    pub path: String,
}

impl ThreadFiles {
    /// Resolves a path. Links are followed inside the virtual tree only; absolute links are read as virtual paths. With
    /// `create_parents`, missing directories on the way are made where tools may write.
    pub(super) fn resolve(&self, path: &str, create_parents: bool) -> Result<Resolved<'_>, SandboxError> {
        let outside = || SandboxError::OutsideRoot { path: path.to_owned() };
        let fail = |errno| SandboxError::at("opening", path, errno);
        let mut target = path.to_owned();
        let mut links = 0;
        'restart: loop {
            let Some((mount, rest)) = self.mounts.lookup(&target) else {
                // The path itself may be a virtual parent of mounts; only a link can be "outside".
                return Err(if links == 0 { SandboxError::NotFound { path: path.to_owned() } } else { outside() });
            };
            let root = open_mount(mount).map_err(fail)?;
            let mut stack: Vec<(OsString, OwnedFd)> = Vec::new();
            let mut pending: VecDeque<OsString> = names(rest.as_bytes()).collect();
            while let Some(name) = pending.pop_front() {
                if name == ".." {
                    if stack.pop().is_none() {
                        target = leave_mount(mount, &pending).ok_or_else(outside)?;
                        continue 'restart;
                    }
                    continue;
                }
                let dir = stack.last().map_or_else(|| root.as_fd(), |(_, fd)| fd.as_fd());
                let last = pending.is_empty();
                let here = |stack: &[(OsString, OwnedFd)], name: &OsStr| virtual_name(mount, stack, name);
                match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(SandboxError::LinkLoop { path: path.to_owned() });
                        }
                        let link = rustix::fs::readlinkat(dir, &name, Vec::new()).map_err(fail)?.into_bytes();
                        if link.first() == Some(&b'/') {
                            target = absolute_link(&link, &pending).ok_or_else(outside)?;
                            continue 'restart;
                        }
                        for part in names(&link).collect::<Vec<_>>().into_iter().rev() {
                            pending.push_front(part);
                        }
                    }
                    Ok(stat) if last => {
                        let path = here(&stack, &name);
                        let dir = own(stack, root);
                        return Ok(Resolved { mount, dir, name: Some(name), stat: Some(stat), path });
                    }
                    Ok(_) => {
                        let fd = rustix::fs::openat(dir, &name, PATH_DIR, Mode::empty()).map_err(fail)?;
                        stack.push((name, fd));
                    }
                    Err(Errno::NOENT) if last => {
                        let path = here(&stack, &name);
                        let dir = own(stack, root);
                        return Ok(Resolved { mount, dir, name: Some(name), stat: None, path });
                    }
                    Err(Errno::NOENT) if create_parents => {
                        self.mounts.check_writable(mount, &here(&stack, &name))?;
                        let fd = self.make_dir(dir, &name).map_err(fail)?;
                        stack.push((name, fd));
                    }
                    Err(errno) => return Err(fail(errno)),
                }
            }
            // Every name was consumed by links or `..`: a directory, reached as such.
            let path = match stack.last() {
                Some((name, _)) => virtual_name(mount, &stack[..stack.len() - 1], name),
                None => mount.prefix.clone(),
            };
            let dir = own(stack, root);
            let stat = rustix::fs::fstat(&dir).map_err(fail)?;
            return Ok(Resolved { mount, dir, name: None, stat: Some(stat), path });
        }
    }

    /// Opens a regular file for reading, with what `fstat` says of it.
    pub(super) fn open_regular(&self, path: &VirtualPath) -> Result<(File, Stat), SandboxError> {
        let fd = self.open_any(path)?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| SandboxError::at("reading", path.as_str(), errno))?;
        check_regular(path.as_str(), &stat)?;
        Ok((File::from(fd), stat))
    }

    /// Opens a directory for reading.
    pub(super) fn open_dir(&self, path: &str) -> Result<OwnedFd, SandboxError> {
        let fail = |errno| SandboxError::at("opening", path, errno);
        let found = self.resolve(path, false)?;
        let stat = found.stat.ok_or_else(|| fail(Errno::NOENT))?;
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            return Err(fail(Errno::NOTDIR));
        }
        let name = found.name.as_deref().unwrap_or_else(|| OsStr::new("."));
        rustix::fs::openat(&found.dir, name, READ | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(fail)
    }

    fn open_any(&self, path: &VirtualPath) -> Result<OwnedFd, SandboxError> {
        let text = path.as_str();
        let fail = |errno| SandboxError::at("opening", text, errno);
        // The common case in one call: no link, or links that stay inside the mount.
        if let Some((mount, rest)) = self.mounts.lookup(text)
            && !rest.is_empty()
        {
            let root = open_mount(mount).map_err(fail)?;
            match rustix::fs::openat2(
                &root,
                rest,
                READ,
                Mode::empty(),
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            ) {
                Ok(fd) => return Ok(fd),
                // Leads out of this mount (perhaps into another), changed meanwhile, or the call is not there.
                Err(Errno::XDEV | Errno::LOOP | Errno::AGAIN | Errno::NOSYS | Errno::PERM) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let found = self.resolve(text, false)?;
        let stat = found.stat.ok_or_else(|| fail(Errno::NOENT))?;
        check_regular(text, &stat)?;
        let name = found.name.as_deref().unwrap_or_else(|| OsStr::new("."));
        rustix::fs::openat(&found.dir, name, READ | OFlags::NOFOLLOW, Mode::empty()).map_err(fail)
    }

    fn make_dir(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
        let made = match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let fd = rustix::fs::openat(dir, name, PATH_DIR, Mode::empty())?;
        if made && let Some(uid) = self.owner {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            rustix::fs::chownat(&fd, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
        }
        Ok(fd)
    }
}

/// Opens the root of a mount. The server trusts this path: no command can write above it.
pub(super) fn open_mount(mount: &Mount) -> Result<OwnedFd, Errno> {
    rustix::fs::open(&mount.host, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn check_regular(path: &str, stat: &Stat) -> Result<(), SandboxError> {
    let path = path.to_owned();
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(SandboxError::IsDirectory { path }),
        FileType::Fifo => Err(SandboxError::NotRegular { path, kind: "fifo" }),
        FileType::Socket => Err(SandboxError::NotRegular { path, kind: "socket" }),
        _ => Err(SandboxError::NotRegular { path, kind: "device" }),
    }
}

pub(super) fn file_stat(stat: &Stat) -> FileStat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    };
    FileStat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        modified_ms: stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0)),
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = OsString> {
    path.split(|b| *b == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(|name| OsStr::from_bytes(name).to_owned())
}

fn own(mut stack: Vec<(OsString, OwnedFd)>, root: OwnedFd) -> OwnedFd {
    stack.pop().map_or(root, |(_, fd)| fd)
}

fn virtual_name(mount: &Mount, stack: &[(OsString, OwnedFd)], name: &OsStr) -> String {
    let mut path = mount.prefix.clone();
    for part in stack.iter().map(|(part, _)| part.as_os_str()).chain([name]) {
        path.push('/');
        path.push_str(&part.to_string_lossy());
    }
    path
}

/// The virtual path of an absolute link with the rest of the walk; `..` in it is refused rather than guessed.
fn absolute_link(link: &[u8], pending: &VecDeque<OsString>) -> Option<String> {
    let mut target = String::new();
    for name in names(link).chain(pending.iter().cloned()) {
        let name = String::from_utf8(name.into_vec()).ok().filter(|name| name != "..")?;
        target.push('/');
        target.push_str(&name);
    }
    Some(target)
}

/// The virtual path after `..` at the root of a mount. Directories above a mount are real in the sandbox and have no links,
/// so the step can be done on the text.
fn leave_mount(mount: &Mount, pending: &VecDeque<OsString>) -> Option<String> {
    let mut parts: Vec<String> = mount.prefix.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    parts.pop();
    let mut climbing = true;
    for name in pending {
        let name = name.to_str()?;
        match name {
            ".." if climbing => {
                parts.pop();
            }
            ".." => return None,
            name => {
                climbing = false;
                parts.push(name.to_owned());
            }
        }
    }
    Some(format!("/{}", parts.join("/")))
}
