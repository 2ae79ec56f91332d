//! Where a reader of a run stands.

use std::fmt;
use std::str::FromStr;

/// Distance between the ids of two events: one event shows as several frames, each with an id of its own.
pub(crate) const STRIDE: u64 = 16;

/// Identity of a frame, and its place in the run's order: `<seq>-<n>`.
///
/// `seq` is the last journal row that was durable when the frame was made; `n` counts what came after it. A reader that
/// gives an id back goes on after that frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// Last durable row of the thread's journal.
    pub seq: u64,
    /// Position after that row. Grows, with gaps.
    pub n: u64,
}

/// The text is no id of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event id is two numbers with a dash between them")]
pub struct BadEventId;

impl EventId {
    /// The id of an event that is told after this one; `seq` when it is the event that a row stands for.
    #[must_use]
    pub(crate) fn following(self, seq: Option<u64>) -> Self {
        match seq.filter(|seq| *seq > self.seq) {
            Some(seq) => Self { seq, n: 0 },
            None => Self { n: self.n.saturating_add(STRIDE), ..self },
        }
    }
    /// The id of an event's frame.
    #[must_use]
    pub(crate) fn frame(self, position: u64) -> Self {
        Self { n: self.n.saturating_add(position.min(STRIDE - 1)), ..self }
    }
    /// The greatest id that a frame of the event with this id can have.
    #[must_use]
    pub(crate) fn last_frame(self) -> Self {
        self.frame(STRIDE - 1)
    }
    /// What a client sent as `Last-Event-ID`. Anything that is no id (`-1`, which one SDK sends when it knows none) means
    /// from the start.
    #[must_use]
    pub fn from_header(value: Option<&str>) -> Option<Self> {
        value.and_then(|value| value.trim().parse().ok())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seq, self.n)
    }
}

impl FromStr for EventId {
    type Err = BadEventId;
    fn from_str(text: &str) -> Result<Self, BadEventId> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten().ok_or(BadEventId)
        };
        let (seq, n) = text.split_once('-').ok_or(BadEventId)?;
        Ok(Self { seq: number(seq)?, n: number(n)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_sort_by_place() {
        let id = EventId { seq: 12, n: 48 };
        assert_eq!(EventId::from_header(Some(&id.to_string())), Some(id));
        assert!(id < id.following(None) && id.following(None) < id.following(Some(13)));
        assert_eq!(id.following(Some(13)), EventId { seq: 13, n: 0 });
        assert_eq!(id.following(Some(12)).seq, 12, "a row that was told does not go back");
        assert!(id.last_frame() < id.following(None));
    }

    /// BR-035
    #[test]
    fn what_is_no_id_means_from_the_start() {
        for bad in
            ["-1", "", "abc", "1-", "-", "1", "+1-2", "1-+2", "1-2-3", "99999999999999999999999-0", "１-2", "1 - 2"]
        {
            assert_eq!(EventId::from_header(Some(bad)), None, "{bad:?}");
        }
        assert_eq!(EventId::from_header(None), None);
    }
}
