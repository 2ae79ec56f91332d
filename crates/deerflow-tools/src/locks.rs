//! One writer a file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Entries beyond which dead ones are dropped.
const SWEEP_AT: usize = 256;

/// Locks by key, waited for with a deadline. Keys that nobody holds cost nothing for long.
#[derive(Debug, Default)]
pub struct KeyedLocks {
    locks: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl KeyedLocks {
    /// The lock of `key`, or `None` when another holder kept it for longer than `wait`.
    pub async fn lock(&self, key: &str, wait: Duration) -> Option<OwnedMutexGuard<()>> {
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
    async fn a_held_key_times_out_and_other_keys_do_not_wait() {
        let locks = KeyedLocks::default();
        let held = locks.lock("a", Duration::from_secs(1)).await;
        assert!(held.is_some());
        assert!(locks.lock("a", Duration::from_secs(5)).await.is_none());
        assert!(locks.lock("b", Duration::from_secs(5)).await.is_some());
        drop(held);
        assert!(locks.lock("a", Duration::from_secs(5)).await.is_some());
    }

    #[tokio::test]
    async fn dead_keys_are_swept() {
        let locks = KeyedLocks::default();
        for index in 0..(2 * SWEEP_AT) {
            let _ = locks.lock(&index.to_string(), Duration::from_secs(1)).await;
        }
        assert!(locks.locks.lock().unwrap().len() <= SWEEP_AT);
    }
}
