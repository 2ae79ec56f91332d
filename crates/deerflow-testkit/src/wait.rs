//! Waiting for something to happen, with a deadline instead of a guess.

use std::time::{Duration, Instant};

/// How long the waiting functions of this crate wait before they fail the test. Generous: it is only ever used up by a
/// test that fails, and machines under load are slow.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Looks again and again until `look` finds something. For state without an event to wait for: a file, a row, a
/// process. `what` says what was awaited, in the failure.
///
/// # Panics
/// When nothing is found within [`DEADLINE`] of real time (a paused clock does not count).
#[track_caller]
pub fn eventually<T, F, Look>(what: &str, mut look: F) -> impl Future<Output = T>
where
    F: FnMut() -> Look,
    Look: Future<Output = Option<T>>,
{
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(start.elapsed() < DEADLINE, "{caller}: waited {DEADLINE:?} in vain for {what}");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

/// Waits for a future, but not for ever.
///
/// # Panics
/// When it has not finished within [`DEADLINE`].
#[track_caller]
pub fn within<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(DEADLINE, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: waited {DEADLINE:?} in vain for {what}"),
        }
    }
}
