//! One call at a time for a file: from the look at it to the mark of what became of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Entries beyond which those that nobody holds are dropped.
const SWEEP_AT: usize = 256;

/// Locks by file, waited for with a deadline. Keep one for the life of the process.
#[derive(Debug, Default)]
pub struct FileLocks {
    locks: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl FileLocks {
    /// The lock of `key`, or `None` when another call held it for longer than `wait`.
    pub(super) async fn lock(&self, key: &str, wait: Duration) -> Option<OwnedMutexGuard<()>> {
        let lock = self.entry(key);
        tokio::time::timeout(wait, lock.lock_owned()).await.ok()
    }

    fn entry(&self, key: &str) -> Arc<AsyncMutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= SWEEP_AT {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_held_file_is_waited_for_in_vain_and_others_are_free() {
        let (locks, wait) = (FileLocks::default(), Duration::from_secs(5));
        let held = locks.lock("a", wait).await;
        assert!(held.is_some());
        assert!(locks.lock("a", wait).await.is_none());
        assert!(locks.lock("b", wait).await.is_some());
        drop(held);
        assert!(locks.lock("a", wait).await.is_some());
    }

    #[tokio::test]
    async fn the_table_does_not_grow() {
        let locks = FileLocks::default();
        for index in 0..(2 * SWEEP_AT) {
            let _ = locks.lock(&index.to_string(), Duration::from_secs(1)).await;
        }
        assert!(locks.locks.lock().unwrap().len() <= SWEEP_AT);
    }
}
