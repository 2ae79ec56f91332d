//! Sandboxes that have done a command and wait for the next one of their thread: it then pays for no namespaces.
//!
//! A sandbox goes back to the thread it was made for, and only as long as it would be made just so again: same directories,
//! same limits. What waits is bounded in number and time, and goes when a directory of its thread goes, or the server.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::cgroup::Cell;
use crate::protocol::Limits;

/// Most that wait, of all threads.
const MAX: usize = 16;
/// How often it is seen to that none waits too long or for a thread that is gone.
const LOOK: Duration = Duration::from_secs(1);

/// What a sandbox is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub limits: Limits,
    pub mounts: Vec<Shown>,
}

/// A host directory that a sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub target: String,
    pub host: PathBuf,
    pub read_only: bool,
    /// Which directory it was, whatever its name leads to later.
    pub identity: Identity,
}

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    /// Of what is at a path, a link not followed.
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        std::fs::symlink_metadata(path).map(|meta| Self(meta.dev(), meta.ino()))
    }
}

impl Shape {
    /// True if all the directories are still where they were.
    fn is_current(&self) -> bool {
        self.mounts.iter().all(|shown| Identity::of(&shown.host).is_ok_and(|identity| identity == shown.identity))
    }
}

/// The waiting sandboxes of a provider.
#[derive(Debug)]
pub(super) struct Parking {
    /// How long one may wait; zero: none does.
    patience: Duration,
    /// Longest waiting first.
    waiting: Mutex<VecDeque<Parked>>,
    parked: Notify,
}

/// A sandbox between two commands.
#[derive(Debug)]
pub(super) struct Idle {
    /// Closing it ends the sandbox.
    pub control: UnixStream,
    /// Its cgroup, if it has one.
    pub cell: Option<Cell>,
}

#[derive(Debug)]
struct Parked {
    thread: String,
    shape: Arc<Shape>,
    idle: Idle,
    since: Instant,
}

impl Parked {
    /// False if it has ended by itself.
    fn is_alive(&self) -> bool {
        // It has nothing to say while it waits.
        matches!(self.idle.control.try_read(&mut [0; 1]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Parking {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, waiting: Mutex::default(), parked: Notify::new() }
    }

    /// True if a sandbox may wait at all.
    pub(super) fn is_open(&self) -> bool {
        !self.patience.is_zero()
    }

    /// A sandbox of this very thread that is just as it would be made now.
    pub(super) fn take(&self, thread: &str, shape: &Shape) -> Option<Idle> {
        let mut waiting = self.lock();
        loop {
            let at = waiting.iter().rposition(|parked| parked.thread == thread && *parked.shape == *shape)?;
            let parked = waiting.remove(at)?;
            if parked.is_alive() {
                return Some(parked.idle);
            }
        }
    }

    /// Lets a sandbox wait. The one that has waited longest goes when there are too many.
    pub(super) fn put(&self, thread: &str, shape: Shape, idle: Idle) {
        let parked = Parked { thread: thread.to_owned(), shape: Arc::new(shape), idle, since: Instant::now() };
        let mut waiting = self.lock();
        // Those of the same thread that are no longer of use go at once.
        waiting.retain(|other| other.thread != parked.thread || *other.shape == *parked.shape);
        if waiting.len() >= MAX {
            waiting.pop_front();
        }
        waiting.push_back(parked);
        self.parked.notify_one();
    }

    /// Ends what has waited too long and what belongs to a thread that is gone. For ever; asleep while nothing waits.
    pub(super) async fn tend(self: Arc<Self>) {
        loop {
            if self.lock().is_empty() {
                self.parked.notified().await;
            }
            tokio::time::sleep(LOOK.min(self.patience)).await;
            self.tidy().await;
        }
    }

    async fn tidy(&self) {
        let shapes: Vec<Arc<Shape>> = self.lock().iter().map(|parked| Arc::clone(&parked.shape)).collect();
        let look = move || shapes.into_iter().filter(|shape| !shape.is_current()).collect::<Vec<_>>();
        let Ok(outdated) = tokio::task::spawn_blocking(look).await else { return };
        self.lock().retain(|parked| {
            parked.since.elapsed() < self.patience
                && !outdated.iter().any(|shape| Arc::ptr_eq(shape, &parked.shape))
                && parked.is_alive()
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Parked>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dir: &Path) -> Shape {
        let shown = Shown {
            target: "/mnt/user-data".to_owned(),
            host: dir.to_owned(),
            read_only: false,
            identity: Identity::of(dir).unwrap(),
        };
        Shape { limits: Limits::default(), mounts: vec![shown] }
    }

    fn control() -> (Idle, UnixStream) {
        let (control, theirs) = UnixStream::pair().unwrap();
        (Idle { control, cell: None }, theirs)
    }

    /// True if the other end sees that this one is closed.
    async fn is_closed(end: &UnixStream) -> bool {
        end.readable().await.unwrap();
        matches!(end.try_read(&mut [0; 1]), Ok(0))
    }

    #[tokio::test]
    async fn a_sandbox_goes_only_to_its_own_thread_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let parking = Parking::new(Duration::from_secs(60));
        let (ours, _theirs) = control();
        parking.put("alice:t1", shape(dir.path()), ours);
        assert!(parking.take("bob:t1", &shape(dir.path())).is_none());
        assert!(parking.take("alice:t2", &shape(dir.path())).is_none());
        let limits = Limits { memory_bytes: 1, ..Limits::default() };
        assert!(parking.take("alice:t1", &Shape { limits, ..shape(dir.path()) }).is_none());
        assert!(parking.take("alice:t1", &shape(dir.path())).is_some());
        assert!(parking.take("alice:t1", &shape(dir.path())).is_none());
    }

    #[tokio::test]
    async fn the_one_that_waited_longest_goes_when_there_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let parking = Parking::new(Duration::from_secs(60));
        let mut ends = Vec::new();
        for number in 0..=MAX {
            let (ours, theirs) = control();
            parking.put(&format!("alice:{number}"), shape(dir.path()), ours);
            ends.push(theirs);
        }
        assert!(is_closed(&ends[0]).await);
        assert!(parking.take("alice:0", &shape(dir.path())).is_none());
        assert!(parking.take("alice:1", &shape(dir.path())).is_some());
    }

    #[tokio::test]
    async fn one_that_has_died_is_not_given_out() {
        let dir = tempfile::tempdir().unwrap();
        let parking = Parking::new(Duration::from_secs(60));
        let (ours, theirs) = control();
        drop(theirs);
        ours.control.readable().await.unwrap();
        parking.put("alice:t1", shape(dir.path()), ours);
        assert!(parking.take("alice:t1", &shape(dir.path())).is_none());
    }

    #[tokio::test]
    async fn it_goes_with_its_thread_and_after_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, kept) = (dir.path().join("gone"), dir.path().join("kept"));
        for dir in [&gone, &kept] {
            std::fs::create_dir(dir).unwrap();
        }
        let parking = Parking::new(Duration::from_secs(3600));
        let ((first, first_end), (second, _second_end)) = (control(), control());
        parking.put("alice:t1", shape(&gone), first);
        parking.put("alice:t2", shape(&kept), second);
        std::fs::remove_dir(&gone).unwrap();
        parking.tidy().await;
        assert!(is_closed(&first_end).await);
        assert!(parking.take("alice:t2", &shape(&kept)).is_some());
        let hasty = Parking::new(Duration::from_nanos(1));
        let (ours, end) = control();
        hasty.put("alice:t2", shape(&kept), ours);
        hasty.tidy().await;
        assert!(is_closed(&end).await);
    }
}
