//! Moving bytes, as long as some move.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

const BUFFER: usize = 16 * 1024;

/// When the last byte moved on a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    /// Milliseconds since `start`.
    last: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn touch(&self) {
        let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Resolves when nothing has moved for this long.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let end = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limit;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// Copies until the end of `from`, or `most` bytes: how many there were. `moved` is told of each piece.
pub(crate) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    most: u64,
    activity: &Activity,
    moved: impl Fn(u64),
) -> io::Result<u64> {
    let mut from = from.take(most);
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(total);
        }
        to.write_all(&buffer[..count]).await?;
        activity.touch();
        moved(count as u64);
        total += count as u64;
    }
}
