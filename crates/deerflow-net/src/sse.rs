//! Decoding of server-sent events.
//!
//! The decoder is our own because the ones at hand are too strict for what model gateways send: they end the stream at an
//! unknown field, drop events that came before a fault in the same network chunk, and bound nothing.

use futures::{Stream, StreamExt as _, stream};
use std::collections::VecDeque;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// `event:`, if given.
    pub event: Option<String>,
    /// All `data:` lines, joined by line feeds.
    pub data: String,
    /// `id:`, if given.
    pub id: Option<String>,
}

/// How an [`SseDecoder`] treats the edges of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseOptions {
    /// Upper bound of one event, in bytes.
    pub max_event_bytes: usize,
    /// Deliver the last event when the stream ends without the blank line after it. Against the letter of the standard, and
    /// what model traffic needs: the lost event would be the one with the finish reason.
    pub deliver_unfinished: bool,
    /// Take a line that starts with `{` as an event of its own: gateways report errors that way, and some servers speak
    /// newline-delimited JSON.
    pub bare_json: bool,
}

impl SseOptions {
    /// For model traffic: 16 MiB an event, nothing lost at the end, bare JSON lines read.
    #[must_use]
    pub const fn model_traffic() -> Self {
        Self { max_event_bytes: 16 * 1024 * 1024, deliver_unfinished: true, bare_json: true }
    }
    /// By the standard, 16 MiB an event.
    #[must_use]
    pub const fn standard() -> Self {
        Self { deliver_unfinished: false, bare_json: false, ..Self::model_traffic() }
    }
}

/// A stream of events could not be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError<E> {
    /// The bytes below failed.
    #[error("{0}")]
    Transport(E),
    /// An event grew beyond the bound.
    #[error("an event is larger than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
}

/// An event grew beyond the bound; the decoder gives nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Turns bytes, cut anywhere, into events.
///
/// Lines end at CR, LF or CRLF and nowhere else: U+2028, U+2029 and U+0085 are data. A character may be cut between two
/// pushes. Bytes that are not UTF-8 become replacement characters once their line is complete.
#[derive(Debug)]
pub struct SseDecoder {
    options: SseOptions,
    line: Vec<u8>,
    skip_line_feed: bool,
    at_start: bool,
    current: SseEvent,
    has_data: bool,
    ready: VecDeque<SseEvent>,
    dead: bool,
}

impl SseDecoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new(options: SseOptions) -> Self {
        Self {
            options,
            line: Vec::new(),
            skip_line_feed: false,
            at_start: true,
            current: SseEvent::default(),
            has_data: false,
            ready: VecDeque::new(),
            dead: false,
        }
    }

    /// Takes bytes in.
    ///
    /// # Errors
    /// [`TooLarge`] when the event at hand outgrows the bound; events completed before it can still be taken.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        while !self.dead && !bytes.is_empty() {
            if std::mem::take(&mut self.skip_line_feed) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.current.data.len() + piece.len() > self.options.max_event_bytes {
                self.dead = true;
                break;
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.skip_line_feed = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
        if self.dead { Err(TooLarge) } else { Ok(()) }
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// The stream has ended; makes the unfinished event available when the options say so.
    pub fn finish(&mut self) {
        if self.options.deliver_unfinished && !self.dead {
            if !self.line.is_empty() {
                self.end_line();
            }
            self.dispatch();
        }
        self.dead = true;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        }
        self.take_line(&String::from_utf8_lossy(bytes));
        // Keeps the buffer for the next line.
        self.line = line;
        self.line.clear();
    }

    fn take_line(&mut self, line: &str) {
        if line.is_empty() {
            self.dispatch();
            return;
        }
        if self.options.bare_json && line.starts_with('{') {
            self.dispatch();
            self.ready.push_back(SseEvent { data: line.to_owned(), ..SseEvent::default() });
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
            }
            "event" => self.current.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.current.id = Some(value.to_owned()),
            // Comments, `retry` and fields nobody knows say nothing to us.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.current);
        // An event without data is not delivered, by the standard.
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(event);
        }
    }
}

/// Decodes a stream of byte chunks. The stream ends after its first error; events that were complete before it come first.
pub fn decode_sse<S, B, E>(bytes: S, options: SseOptions) -> impl Stream<Item = Result<SseEvent, SseError<E>>> + Send
where
    S: Stream<Item = Result<B, E>> + Send + Unpin,
    B: AsRef<[u8]>,
    E: Send,
{
    struct State<S, E> {
        bytes: S,
        decoder: SseDecoder,
        failed: Option<SseError<E>>,
        ended: bool,
    }
    let state = State { bytes, decoder: SseDecoder::new(options), failed: None, ended: false };
    stream::unfold(state, move |mut state| async move {
        loop {
            if let Some(event) = state.decoder.next_event() {
                return Some((Ok(event), state));
            }
            if let Some(error) = state.failed.take() {
                return Some((Err(error), state));
            }
            if state.ended {
                return None;
            }
            match state.bytes.next().await {
                Some(Ok(chunk)) => {
                    if state.decoder.push(chunk.as_ref()).is_err() {
                        state.failed = Some(SseError::TooLarge { limit: options.max_event_bytes });
                        state.ended = true;
                    }
                }
                Some(Err(error)) => {
                    state.failed = Some(SseError::Transport(error));
                    state.ended = true;
                }
                None => {
                    state.decoder.finish();
                    state.ended = true;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests;
