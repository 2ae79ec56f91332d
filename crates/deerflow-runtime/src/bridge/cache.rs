//! Rendered frames that several readers share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of rendered frames that a stream keeps for readers that follow closely.
const MAX_BYTES: usize = 512 * 1024;

/// Which rendering of an event a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Values,
    Update,
    Chunk,
    Whole,
}

#[derive(Debug)]
struct Cached {
    index: u64,
    rendering: Rendering,
    data: Arc<str>,
}

/// The newest rendered frames of one stream: the first reader renders, those close behind it share the text.
#[derive(Debug, Default)]
pub(crate) struct FrameCache(Mutex<(VecDeque<Cached>, usize)>);

impl FrameCache {
    /// The text of an event's rendering, made by `render` unless another reader has made it.
    pub(crate) fn get(&self, index: u64, rendering: Rendering, render: impl FnOnce() -> Arc<str>) -> Arc<str> {
        let found = |kept: &VecDeque<Cached>| {
            kept.iter().rev().find(|c| c.index == index && c.rendering == rendering).map(|c| c.data.clone())
        };
        if let Some(data) = found(&self.0.lock().unwrap_or_else(PoisonError::into_inner).0) {
            return data;
        }
        // Not under the lock: a long state takes its time, and two readers that render the same do no harm.
        let data = render();
        let (kept, bytes) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes += data.len();
        kept.push_back(Cached { index, rendering, data: data.clone() });
        while (*bytes > MAX_BYTES || kept.len() > 256) && kept.len() > 1 {
            *bytes -= kept.pop_front().map_or(0, |old| old.data.len());
        }
        data
    }

    /// Forgets everything: nobody will read closely any more.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (VecDeque::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_reader_rendered_the_next_shares_and_old_texts_go() {
        let cache = FrameCache::default();
        let first = cache.get(1, Rendering::Values, || "a".into());
        let again = cache.get(1, Rendering::Values, || "never".into());
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(&*cache.get(1, Rendering::Update, || "b".into()), "b");
        for index in 2..400 {
            cache.get(index, Rendering::Values, || "x".repeat(10_000).into());
        }
        assert_eq!(&*cache.get(1, Rendering::Values, || "again".into()), "again");
        assert!(cache.0.lock().unwrap().1 <= MAX_BYTES);
    }
}
