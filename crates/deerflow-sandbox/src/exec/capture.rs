//! Output of a command: head and tail are kept, the middle is counted.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;

use crate::sandbox::Cut;
use crate::text;

/// Keeps the first and the last half of at most `limit` bytes.
#[derive(Debug)]
pub(crate) struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    pub(crate) fn new(limit: u64) -> Self {
        let half = usize::try_from(limit / 2).unwrap_or(usize::MAX / 2).max(64);
        Self { half, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Of a long piece only the end can stay.
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// The text, with a notice in the middle when something was left out. Never cut inside a character.
    pub(crate) fn finish(self) -> (String, Option<Cut>) {
        let Self { mut head, tail, total, .. } = self;
        let mut tail: Vec<u8> = tail.into();
        let kept = (head.len() + tail.len()) as u64;
        if total == kept {
            head.append(&mut tail);
            return (text::lossy(head), None);
        }
        head.truncate(complete_prefix(&head));
        tail.drain(..continuation(&tail));
        let dropped_bytes = total - (head.len() + tail.len()) as u64;
        let shown = format!("{}\n... [{dropped_bytes} bytes left out] ...\n{}", text::lossy(head), text::lossy(tail));
        (shown, Some(Cut { total_bytes: total, dropped_bytes }))
    }
}

/// Length without a character that is cut off at the end.
fn complete_prefix(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0x00..=0x7F => 1,
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        return if length > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// Bytes at the start that continue a character which is not there.
fn continuation(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..=0xBF).contains(*byte)).count()
}

/// The reading end of a command's pipe.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<pipe::Receiver>,
    capture: Capture,
    buffer: Vec<u8>,
}

impl Output {
    pub(crate) fn new(fd: OwnedFd, limit: u64) -> std::io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(fd)?;
        Ok(Self { pipe: Some(pipe), capture: Capture::new(limit), buffer: vec![0; 16 * 1024] })
    }

    /// Still open.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Reads what is there; returns when there was something, or the end. Pending for ever once closed.
    ///
    /// Cancel safe: bytes are taken out of the pipe only together with storing them.
    pub(crate) async fn read(&mut self) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        if pipe.readable().await.is_err() {
            self.pipe = None;
            return;
        }
        self.drain();
    }

    /// Takes what is in the pipe now, without waiting.
    pub(crate) fn drain(&mut self) {
        // A bounded number of rounds, so that one busy command does not hold the task.
        for _ in 0..16 {
            let Some(pipe) = &self.pipe else { return };
            match pipe.try_read(&mut self.buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.capture.push(&self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    pub(crate) fn finish(self) -> (String, Option<Cut>) {
        self.capture.finish()
    }

    /// Moves the output out of a place that must stay valid.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self { pipe: None, capture: Capture::new(0), buffer: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capture(limit: u64, pieces: &[&[u8]]) -> (String, Option<Cut>) {
        let mut capture = Capture::new(limit);
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.finish()
    }

    #[test]
    fn br_110_the_tail_with_the_error_is_kept() {
        let (text, cut) = capture(1024, &[&vec![b'x'; 500_000], b"\nerror: it failed"]);
        assert!(text.starts_with("xxx") && text.ends_with("error: it failed"), "{}", text.len());
        assert_eq!(cut.unwrap().total_bytes, 500_017);
    }

    #[test]
    fn br_111_a_character_at_the_limit_is_not_split() {
        let long = format!("{}界{}", "a".repeat(63), "é".repeat(200));
        let (text, cut) = capture(128, &[long.as_bytes()]);
        assert!(!text.contains('\u{fffd}'), "{text}");
        assert!(text.starts_with(&"a".repeat(63)) && cut.is_some());
    }

    #[test]
    fn output_that_fits_is_whole() {
        assert_eq!(capture(128, &[b"ab", "界".as_bytes()]), ("ab界".to_owned(), None));
        assert_eq!(capture(128, &[&[0xff, b'a']]).0, "\u{fffd}a");
    }

    proptest! {
        #[test]
        fn no_text_is_ever_broken(text in "[a-z界é😀]{0,300}", size in 1usize..40) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let (shown, cut) = capture(128, &pieces);
            let broken = shown.contains(char::REPLACEMENT_CHARACTER);
            prop_assert!(!broken);
            if cut.is_none() {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
