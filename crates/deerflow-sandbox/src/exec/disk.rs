//! Disk space: what a thread uses, and what is left.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use crate::sandbox::LimitHit;
use crate::{SandboxConfig, handle};

const TICK: Duration = Duration::from_millis(200);
const UNKNOWN: u64 = u64::MAX;
/// Growth that is forgiven to a thread that is already over its limit.
const SLACK: u64 = 1 << 20;

/// What a tree uses that cannot be measured: it is more than any limit.
const HIDDEN: u64 = u64::MAX - 1;

/// Watches the disk of a thread: before, while and after a command runs.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    dir: PathBuf,
    limit: u64,
    min_free: u64,
    /// What the thread used when it was last measured.
    known: Arc<AtomicU64>,
}

impl DiskWatch {
    pub(crate) fn new(dir: PathBuf, config: &SandboxConfig) -> Self {
        Self {
            dir,
            limit: config.disk_mb.saturating_mul(1 << 20),
            min_free: config.min_free_mb.saturating_mul(1 << 20),
            known: Arc::new(AtomicU64::new(UNKNOWN)),
        }
    }

    /// True if the thread is over its limit before a command starts: it may then only make room. A thread that was under its
    /// limit after the last command is not measured again.
    pub(crate) async fn is_over(&self) -> bool {
        if self.limit == 0 {
            return false;
        }
        let known = self.known.load(Ordering::Relaxed);
        known > self.limit && self.measure().await.is_some_and(|used| used > self.limit)
    }

    /// The limit that the thread is over when a command has ended.
    pub(crate) async fn after(&self) -> Option<LimitHit> {
        if self.limit == 0 {
            return None;
        }
        self.measure().await.filter(|used| *used > self.limit).map(hit)
    }

    async fn measure(&self) -> Option<u64> {
        let dir = self.dir.clone();
        let task: JoinHandle<u64> = tokio::task::spawn_blocking(move || used(&dir));
        let used = task.await.ok()?;
        self.known.store(used, Ordering::Relaxed);
        Some(used)
    }

    /// Resolves when a limit is hit while a command runs; otherwise never. Growth beyond what there was is what counts.
    pub(crate) async fn exceeded(&self) -> LimitHit {
        if self.limit == 0 && self.min_free == 0 {
            return std::future::pending().await;
        }
        let mut baseline = self.known.load(Ordering::Relaxed);
        let mut pause = Duration::ZERO;
        loop {
            tokio::time::sleep(TICK.max(pause)).await;
            if self.min_free > 0 && free(&self.dir).is_some_and(|free| free < self.min_free) {
                return LimitHit::FreeSpace;
            }
            if self.limit == 0 {
                continue;
            }
            let started = Instant::now();
            let Some(used) = self.measure().await else { continue };
            // A large tree is measured less often.
            pause = started.elapsed() * 20;
            if baseline == UNKNOWN {
                // The first look may already be at a flood.
                baseline = used.min(self.limit);
            }
            if used > self.limit.max(baseline.saturating_add(SLACK)) {
                return hit(used);
            }
        }
    }
}

fn hit(used: u64) -> LimitHit {
    if used == HIDDEN { LimitHit::DiskUnknown } else { LimitHit::Disk }
}

fn free(dir: &Path) -> Option<u64> {
    rustix::fs::statvfs(dir).ok().map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Bytes of disk that a tree uses, or [`HIDDEN`]; links are not followed, what vanishes is skipped.
fn used(dir: &Path) -> u64 {
    let Ok(root) = rustix::fs::openat(CWD, dir, OPEN, Mode::empty()) else { return 0 };
    let mut usage = Usage { seen: HashSet::new(), total: 0 };
    match usage.add(&root, 0) {
        Ok(()) => usage.total,
        Err(Hidden) => HIDDEN,
    }
}

/// A part of the tree cannot be measured.
struct Hidden;

struct Usage {
    /// Files with several names, counted once.
    seen: HashSet<u64>,
    total: u64,
}

impl Usage {
    fn add(&mut self, dir: &OwnedFd, depth: usize) -> Result<(), Hidden> {
        let Ok(entries) = Dir::read_from(dir) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match rustix::fs::statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::ACCESS) => return Err(Hidden),
                Err(_) => continue,
            };
            let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
            if stat.st_nlink > 1 && !is_dir && !self.seen.insert(stat.st_ino) {
                continue;
            }
            self.total += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            if !is_dir {
                continue;
            }
            // Each level holds one descriptor; deeper trees than this do not occur by accident.
            if depth >= MAX_DEPTH {
                return Err(Hidden);
            }
            let child = if stat.st_mode & READABLE == READABLE {
                rustix::fs::openat(dir, name, OPEN, Mode::empty())
            } else {
                handle::open_dir(dir, name, READABLE)
            };
            match child {
                Ok(child) => self.add(&child, depth + 1)?,
                Err(Errno::ACCESS | Errno::PERM) => return Err(Hidden),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// What the owner needs to read a directory and look at what is in it.
const READABLE: u32 = 0o500;
const MAX_DEPTH: usize = 256;
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_measured_by_blocks_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/a"), vec![1; 1 << 20]).unwrap();
        std::fs::hard_link(dir.path().join("sub/a"), dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let bytes = used(dir.path());
        assert!((1 << 20..3 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_is_nested_too_deep_to_be_measured_is_over_any_limit() {
        let dir = tempfile::tempdir().unwrap();
        let deep: PathBuf = dir.path().join("d/".repeat(MAX_DEPTH));
        std::fs::create_dir_all(&deep).unwrap();
        assert!(used(dir.path()) < 1 << 30);
        std::fs::create_dir_all(deep.join("d")).unwrap();
        assert_eq!(used(dir.path()), HIDDEN);
        assert_eq!(hit(used(dir.path())), LimitHit::DiskUnknown);
    }

    #[test]
    fn a_directory_closed_by_its_owner_is_measured_all_the_same() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o000, 0o300, 0o600] {
            let closed = dir.path().join(format!("{mode:o}"));
            std::fs::create_dir(&closed).unwrap();
            std::fs::write(closed.join("a"), vec![1; 1 << 20]).unwrap();
            std::fs::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
        }
        let bytes = used(dir.path());
        assert!((3 << 20..5 << 20).contains(&bytes), "{bytes}");
    }
}
