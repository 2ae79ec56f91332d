//! Language models over HTTP: provider adapters, making a history legal for its provider, recording and replay.
//!
//! **Invariant:** nothing leaves this crate for a provider that did not pass [`legalise`], and no text that leaves it for
//! people (errors, logs, recordings) holds a key. Adapters make one attempt; retrying belongs to the harness.

pub mod legalise;
#[doc(hidden)]
pub mod testing;
