//! Typed private state of middlewares.

use super::{StateUpdate, ThreadState};
use serde::{Serialize, de::DeserializeOwned};
use std::marker::PhantomData;

/// A middleware's own place in the state: durable with the thread, hidden from clients, last write wins.
///
/// A value that no longer parses (its type changed between versions) reads as absent.
#[derive(Debug)]
pub struct StateSlot<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> StateSlot<T> {
    /// The slot of this name; use the middleware's class name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }
    /// What is in it.
    #[must_use]
    pub fn get(&self, state: &ThreadState) -> Option<T> {
        state.private.get(self.name).and_then(|value| T::deserialize(value).ok())
    }
    /// An update that puts `value` there.
    #[must_use]
    pub fn put(&self, value: &T) -> StateUpdate {
        let mut update = StateUpdate::none();
        self.put_into(&mut update, value);
        update
    }
    /// Adds the write to an update.
    pub fn put_into(&self, update: &mut StateUpdate, value: &T) {
        // A value that cannot be JSON (a map with keys that are no strings) is a programming error and reads as absent.
        let value = serde_json::to_value(value).unwrap_or_default();
        update.private.insert(self.name.to_owned(), value);
    }
}
