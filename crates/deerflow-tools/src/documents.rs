//! Documents as text, converted once per version of a file.

use deerflow_documents::{ConvertError, Converter};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Conversions kept.
const MAX_ENTRIES: usize = 16;
/// Characters kept in all, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Conversions at a time: each may take a core and much memory.
const MAX_PARALLEL: usize = 2;

/// A converted document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DocumentText {
    /// Markdown with page marks.
    pub(crate) markdown: String,
    /// What was left out, for the model.
    pub(crate) warnings: Vec<String>,
}

/// Converts documents and remembers the last ones by content.
#[derive(Debug)]
pub(crate) struct DocumentReader {
    converter: Converter,
    cache: Mutex<VecDeque<(String, Arc<DocumentText>)>>,
    slots: Semaphore,
}

impl DocumentReader {
    pub(crate) fn new(converter: Converter) -> Self {
        Self { converter, cache: Mutex::default(), slots: Semaphore::new(MAX_PARALLEL) }
    }

    pub(crate) fn converter(&self) -> &Converter {
        &self.converter
    }

    /// Largest document taken, in bytes.
    pub(crate) fn max_input_bytes(&self) -> u64 {
        self.converter.limits.max_input_bytes
    }

    /// The text of a document. `owner` keeps users and files apart in the cache.
    pub(crate) async fn read(
        &self,
        owner: &str,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Arc<DocumentText>, ConvertError> {
        let digest = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let key = format!("{owner}\n{name}\n{digest}");
        if let Some(found) = self.cached(&key) {
            return Ok(found);
        }
        // The semaphore is never closed; a permit that cannot be had would only mean one more conversion at a time.
        let _slot = self.slots.acquire().await.ok();
        if let Some(found) = self.cached(&key) {
            return Ok(found);
        }
        let converted = self.converter.convert(name, bytes).await?;
        let text = Arc::new(DocumentText { markdown: converted.markdown, warnings: converted.warnings });
        self.store(key, Arc::clone(&text));
        Ok(text)
    }

    fn cached(&self, key: &str) -> Option<Arc<DocumentText>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cache.iter().position(|(have, _)| have == key)?;
        let entry = cache.remove(at)?;
        let text = Arc::clone(&entry.1);
        cache.push_front(entry);
        Some(text)
    }

    fn store(&self, key: String, text: Arc<DocumentText>) {
        if text.markdown.len() > MAX_BYTES {
            return;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_front((key, text));
        let mut bytes = 0;
        let within = cache.iter().take(MAX_ENTRIES).take_while(|(_, text)| {
            bytes += text.markdown.len();
            bytes <= MAX_BYTES
        });
        let keep = within.count();
        cache.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Arc<DocumentText> {
        Arc::new(DocumentText { markdown: "x".repeat(bytes), warnings: Vec::new() })
    }

    #[test]
    fn the_cache_is_bounded_in_entries_and_bytes_and_keeps_the_most_recent() {
        let reader = DocumentReader::new(Converter::default());
        for index in 0..MAX_ENTRIES + 4 {
            reader.store(index.to_string(), text(10));
            assert!(reader.cached("0").is_some());
        }
        assert_eq!(reader.cache.lock().unwrap().len(), MAX_ENTRIES);
        assert!(reader.cached("1").is_none());
        reader.store("huge".into(), text(MAX_BYTES + 1));
        assert!(reader.cached("huge").is_none());
        reader.store("large".into(), text(MAX_BYTES));
        assert_eq!(reader.cache.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn one_version_is_converted_once() {
        let reader = DocumentReader::new(Converter::default());
        let first = reader.read("s", "a.csv", b"a,b\n1,2\n".to_vec()).await.unwrap();
        let second = reader.read("s", "a.csv", b"a,b\n1,2\n".to_vec()).await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let other = reader.read("other", "a.csv", b"a,b\n1,2\n".to_vec()).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(first.markdown.contains("| a | b |"), "{}", first.markdown);
    }
}
