//! Content addressing: what is written with references in place of messages and large values, and back.
//!
//! A reference is looked for only where the packer may have put one, and a value of the user's that looks like one is
//! itself stored by reference: so nothing a user writes is ever taken for a reference.

mod journal;
mod update;

pub(crate) use journal::{journal_references, pack_journal, unpack_journal};
pub(crate) use update::{PackedFrame, pack_channels, pack_frames, pack_update, resolve_ids};

use crate::error::damaged;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deerflow_core::{Message, StoreError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Values longer than this as JSON are stored by reference, in bytes.
const INLINE_BYTES: usize = 512;
/// Key of the object that stands for a stored value.
const REFERENCE: &str = "$ref";
const HASH_BYTES: usize = 16;

/// Name of stored content: the first 128 bits of its BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hash([u8; HASH_BYTES]);

impl Hash {
    fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&blake3::hash(bytes).as_bytes()[..HASH_BYTES]);
        Self(hash)
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        bytes.try_into().map(Self).map_err(|_| StoreError::Damaged(format!("a hash of {} bytes", bytes.len())))
    }
    /// A list of hashes stored end to end.
    pub(crate) fn list(bytes: &[u8]) -> Result<Vec<Self>, StoreError> {
        bytes.chunks(HASH_BYTES).map(Self::from_bytes).collect()
    }
    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
    fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).map(Self)
    }
    pub(crate) fn hex(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(2 * HASH_BYTES);
        for byte in self.0 {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("bad hash {text:?}")))
    }
}

/// Content to be written with a step, each piece once.
#[derive(Debug, Default)]
pub(crate) struct Pile {
    pieces: BTreeMap<Hash, Vec<u8>>,
}

impl Pile {
    fn put(&mut self, bytes: Vec<u8>) -> Hash {
        let hash = Hash::of(&bytes);
        self.pieces.entry(hash).or_insert(bytes);
        hash
    }

    fn put_message(&mut self, message: &Message) -> Result<Hash, StoreError> {
        Ok(self.put(serde_json::to_vec(message).map_err(|error| damaged("a message cannot be written", error))?))
    }

    /// `value` itself, or its reference when it is large or could be taken for one.
    fn put_value(&mut self, value: Value) -> Result<Value, StoreError> {
        if !matches!(value, Value::Object(_) | Value::Array(_) | Value::String(_)) {
            return Ok(value);
        }
        let bytes = serde_json::to_vec(&value).map_err(|error| damaged("a value cannot be written", error))?;
        if bytes.len() <= INLINE_BYTES && reference(&value).is_none() {
            return Ok(value);
        }
        Ok(reference_value(self.put(bytes)))
    }

    /// All pieces in one block, as a statement takes them.
    pub(crate) fn into_block(self) -> Block {
        let mut block = Block::default();
        let mut index = Vec::with_capacity(self.pieces.len());
        for (hash, bytes) in self.pieces {
            // Positions count from 1, as `substr` does.
            index.push((hash.hex(), block.data.len() + 1, bytes.len()));
            block.data.extend_from_slice(&bytes);
        }
        block.index = serde_json::json!(index).to_string();
        block.pieces = index.len();
        block
    }

    #[cfg(test)]
    fn into_pieces(self) -> Vec<(Hash, Vec<u8>)> {
        self.pieces.into_iter().collect()
    }
}

/// Pieces end to end, and where each lies: any number of them are two parameters of one statement.
#[derive(Debug, Default, Clone)]
pub(crate) struct Block {
    /// JSON list of hash in hexadecimal, position from 1, and length.
    pub(crate) index: String,
    pub(crate) data: Vec<u8>,
    /// How many there are.
    pub(crate) pieces: usize,
}

fn reference_value(hash: Hash) -> Value {
    Value::Object([(REFERENCE.to_owned(), Value::String(hash.text()))].into_iter().collect())
}

/// The hash that a reference names.
fn reference(value: &Value) -> Option<Hash> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    Hash::parse(map.get(REFERENCE)?.as_str()?)
}

/// Content read back.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pieces: HashMap<Hash, Vec<u8>>,
    /// Messages already read, so that a message that several steps name is one in memory.
    messages: HashMap<Hash, Arc<Message>>,
}

impl Shelf {
    pub(crate) fn insert(&mut self, hash: Hash, bytes: Vec<u8>) {
        self.pieces.insert(hash, bytes);
    }

    /// Bytes on it.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.values().map(Vec::len).sum()
    }

    fn piece(&self, hash: &Hash) -> Result<&[u8], StoreError> {
        self.pieces
            .get(hash)
            .map(Vec::as_slice)
            .ok_or_else(|| StoreError::Damaged(format!("content {} is missing", hash.hex())))
    }

    pub(crate) fn message(&mut self, hash: &Hash) -> Result<Arc<Message>, StoreError> {
        if let Some(message) = self.messages.get(hash) {
            return Ok(message.clone());
        }
        let message: Message =
            serde_json::from_slice(self.piece(hash)?).map_err(|error| damaged("a stored message", error))?;
        let message = Arc::new(message);
        self.messages.insert(*hash, message.clone());
        Ok(message)
    }

    fn value(&self, value: Value) -> Result<Value, StoreError> {
        match reference(&value) {
            Some(hash) => serde_json::from_slice(self.piece(&hash)?).map_err(|error| damaged("a stored value", error)),
            None => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests;
