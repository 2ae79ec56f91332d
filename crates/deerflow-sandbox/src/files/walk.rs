//! Walking a tree by directory handles: links are never descended, what vanishes is skipped, the amount is bounded.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::os::unix::ffi::OsStrExt;

use super::ignored::is_ignored;
use super::resolve::open_mount;
use super::{ListedEntry, Listing, ThreadFiles};
use crate::{SandboxError, VirtualPath};

const MAX_DEPTH: usize = 64;
const MAX_ENTRIES: usize = 200_000;
const MAX_LISTED: usize = 10_000;

/// What the walk found.
pub(super) struct Found<'a> {
    /// Directory that holds it.
    pub dir: BorrowedFd<'a>,
    pub name: &'a OsString,
    /// Path relative to the root of the walk.
    pub relative: &'a str,
    pub kind: FileType,
    pub size: u64,
}

/// Depth-first walk in the order of names.
pub(super) struct Walk<F> {
    max_depth: usize,
    entries: usize,
    /// Something was left out because of a bound.
    pub bounded: bool,
    visit: F,
}

impl<F: FnMut(&Found<'_>) -> ControlFlow<()>> Walk<F> {
    pub(super) fn new(max_depth: usize, visit: F) -> Self {
        Self { max_depth: max_depth.min(MAX_DEPTH), entries: 0, bounded: false, visit }
    }

    pub(super) fn run(&mut self, dir: &OwnedFd) -> ControlFlow<()> {
        self.descend(dir, "", 1)
    }

    pub(super) fn descend(&mut self, dir: &OwnedFd, prefix: &str, depth: usize) -> ControlFlow<()> {
        for name in self.sorted_names(dir) {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                self.bounded = true;
                return ControlFlow::Break(());
            }
            let Ok(stat) = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let shown = name.to_string_lossy();
            let relative = if prefix.is_empty() { shown.into_owned() } else { format!("{prefix}/{shown}") };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            (self.visit)(&Found { dir: dir.as_fd(), name: &name, relative: &relative, kind, size })?;
            if kind.is_dir() && depth < self.max_depth {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(child) = rustix::fs::openat(dir, &name, flags, Mode::empty()) {
                    self.descend(&child, &relative, depth + 1)?;
                }
            } else if kind.is_dir() && depth >= MAX_DEPTH {
                self.bounded = true;
            }
        }
        ControlFlow::Continue(())
    }

    fn sorted_names(&mut self, dir: &OwnedFd) -> Vec<OsString> {
        let Ok(entries) = Dir::read_from(dir) else { return Vec::new() };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() >= MAX_ENTRIES {
                self.bounded = true;
                break;
            }
            let name = std::ffi::OsStr::from_bytes(name).to_owned();
            if !is_ignored(&name.to_string_lossy()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names
    }
}

/// Where a search starts: one directory, or several mounts beneath a virtual parent.
pub(super) struct Start {
    pub dir: OwnedFd,
    /// Its path relative to the search root, empty for the root itself.
    pub relative: String,
}

impl ThreadFiles {
    /// The directories that a listing or search of `path` walks.
    pub(super) fn starts(&self, path: &VirtualPath) -> Result<Vec<Start>, SandboxError> {
        let text = path.as_str();
        if !self.is_virtual_parent(text) {
            return Ok(vec![Start { dir: self.open_dir(text)?, relative: String::new() }]);
        }
        let mut starts = Vec::new();
        for mount in self.mounts.beneath(text) {
            if let (Ok(_), Ok(dir)) = (open_mount(mount), self.open_dir(&mount.prefix)) {
                starts.push(Start { dir, relative: mount.prefix[text.len() + 1..].to_owned() });
            }
        }
        Ok(starts)
    }

    /// Files and directories beneath a directory, up to `max_depth` levels.
    ///
    /// # Errors
    /// Any of the path errors.
    pub fn list_dir(&self, path: &VirtualPath, max_depth: usize) -> Result<Listing, SandboxError> {
        let base = path.as_str();
        let mut entries = Vec::new();
        let mut truncated = false;
        for start in self.starts(path)? {
            let prefix = join(base, &start.relative);
            if !start.relative.is_empty() {
                entries.push(ListedEntry { path: prefix.clone(), is_dir: true, size: 0 });
            }
            let levels = if start.relative.is_empty() { max_depth } else { max_depth.saturating_sub(1) };
            if levels == 0 {
                continue;
            }
            let mut walk = Walk::new(levels, |found: &Found<'_>| {
                let path = join(&prefix, found.relative);
                let (is_dir, size) = match found.kind {
                    FileType::Symlink => match self.resolve(&path, false).ok().and_then(|target| target.stat) {
                        // A link that leads out, nowhere or in a circle is not shown.
                        None => return ControlFlow::Continue(()),
                        Some(stat) => (super::read::is_dir(stat.st_mode), u64::try_from(stat.st_size).unwrap_or(0)),
                    },
                    kind => (kind.is_dir(), found.size),
                };
                if entries.len() >= MAX_LISTED {
                    truncated = true;
                    return ControlFlow::Break(());
                }
                entries.push(ListedEntry { path, is_dir, size: if is_dir { 0 } else { size } });
                ControlFlow::Continue(())
            });
            let _ = walk.run(&start.dir);
            let bounded = walk.bounded;
            truncated |= bounded;
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Listing { entries, truncated })
    }
}

pub(super) fn join(base: &str, relative: &str) -> String {
    if relative.is_empty() { base.to_owned() } else { format!("{base}/{relative}") }
}
