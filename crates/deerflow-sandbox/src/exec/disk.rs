//! Disk space: what a thread uses, and what is left.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use tokio::task::JoinHandle;

use crate::SandboxConfig;
use crate::sandbox::LimitHit;

const TICK: Duration = Duration::from_millis(200);
const UNKNOWN: u64 = u64::MAX;
/// Growth that is forgiven to a thread that is already over its limit.
const SLACK: u64 = 1 << 20;

/// Watches the disk while a command runs. A command that only makes room may run in a thread that is over its limit.
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

    /// Resolves when a limit is hit; otherwise never. Costs nothing for a command that ends at once.
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
            let (dir, started) = (self.dir.clone(), Instant::now());
            let task: JoinHandle<u64> = tokio::task::spawn_blocking(move || used(&dir));
            let Ok(used) = task.await else { continue };
            // A large tree is measured less often.
            pause = started.elapsed() * 20;
            self.known.store(used, Ordering::Relaxed);
            if baseline == UNKNOWN {
                baseline = used.min(self.limit);
                // The first look may already be at a flood.
                if used > self.limit {
                    return LimitHit::Disk;
                }
            }
            if used > self.limit.max(baseline.saturating_add(SLACK)) {
                return LimitHit::Disk;
            }
        }
    }
}

fn free(dir: &Path) -> Option<u64> {
    rustix::fs::statvfs(dir).ok().map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Bytes of disk that a tree uses; links are not followed, what vanishes is skipped.
fn used(dir: &Path) -> u64 {
    let Ok(root) = rustix::fs::openat(CWD, dir, OPEN, Mode::empty()) else { return 0 };
    let mut usage = Usage { seen: HashSet::new(), total: 0 };
    usage.add(&root, 0);
    usage.total
}

struct Usage {
    /// Files with several names, counted once.
    seen: HashSet<u64>,
    total: u64,
}

impl Usage {
    fn add(&mut self, dir: &OwnedFd, depth: usize) {
        let Ok(entries) = Dir::read_from(dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
            if stat.st_nlink > 1 && !is_dir && !self.seen.insert(stat.st_ino) {
                continue;
            }
            self.total += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            // Each level holds one descriptor; deeper trees than this do not occur by accident.
            if is_dir
                && depth < MAX_DEPTH
                && let Ok(child) = rustix::fs::openat(dir, name, OPEN, Mode::empty())
            {
                self.add(&child, depth + 1);
            }
        }
    }
}

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
}
