//! When a state is written out in full.

use crate::error::damaged;
use crate::pack::{Block, Pile, pack_channels};
use deerflow_core::{CheckpointId, StoreError, ThreadState};

/// Bytes a message costs in a snapshot.
const BYTES_PER_MESSAGE: i64 = 16;
/// A log shorter than this is never worth a snapshot, in bytes.
const SMALLEST_LOG: i64 = 1024;

/// Where a lineage stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) lineage_key: i64,
    pub(crate) thread_key: i64,
    pub(crate) ordinal: i64,
    /// Bytes of updates since the last snapshot.
    pub(crate) log_bytes: i64,
    /// Ordinal of the last snapshot, -1 when there is none.
    pub(crate) snapshot_ordinal: i64,
    /// Bytes of its channels without the messages.
    pub(crate) snapshot_channels: i64,
}

impl LogPosition {
    /// Whether the log since the last snapshot outweighs the next one.
    pub(crate) fn wants_snapshot(&self, messages: usize, frequency: u32) -> bool {
        let size = BYTES_PER_MESSAGE * i64::try_from(messages).unwrap_or(i64::MAX / 32) + self.snapshot_channels;
        self.ordinal - self.snapshot_ordinal >= i64::from(frequency) && self.log_bytes >= size.max(SMALLEST_LOG)
    }
}

/// A snapshot ready to be written.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: LogPosition,
    /// The checkpoint it shows.
    pub(crate) id: CheckpointId,
    pub(crate) messages: Vec<u8>,
    pub(crate) channels: String,
    /// Content of channels and of messages that no update holds in this form.
    pub(crate) pieces: Block,
}

impl Snapshot {
    /// Takes one. The content of messages is in the database already, but for those whose bytes are not in `messages` of
    /// an update; writing them again changes nothing.
    pub(crate) fn take(at: LogPosition, id: CheckpointId, state: &ThreadState) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        let (messages, channels) = pack_channels(state, &mut pile)?;
        if messages.len() != state.messages.len() * 16 {
            return Err(damaged("a snapshot", "it lost messages"));
        }
        Ok(Self { at, id, messages, channels, pieces: pile.into_block() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_paid_for_by_the_log_before_them() {
        // A turn of two messages per step of 150 bytes, for 20,000 steps.
        let (mut log, mut snapshots, mut log_total) = (0, 0, 0);
        let (mut last, mut count, mut longest) = (-1, 0, 0);
        for ordinal in 0..20_000_i64 {
            log += 150;
            log_total += 150;
            let at = LogPosition {
                lineage_key: 1,
                thread_key: 1,
                ordinal,
                log_bytes: log,
                snapshot_ordinal: last,
                snapshot_channels: 300,
            };
            let messages = usize::try_from(ordinal).unwrap();
            if at.wants_snapshot(messages, 10) {
                snapshots += 16 * ordinal + 300;
                longest = longest.max(ordinal - last);
                (log, last, count) = (0, ordinal, count + 1);
            }
        }
        assert!(snapshots <= log_total, "{snapshots} bytes of snapshots, {log_total} of log");
        assert!(count < 100, "{count} snapshots");
        assert!(longest < 2_500, "{longest} steps to replay");
    }
}
