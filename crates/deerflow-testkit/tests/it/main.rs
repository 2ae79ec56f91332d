//! The scripted model over real connections.

#![expect(clippy::unwrap_used, reason = "what cannot be set up has to fail its test")]

mod client;
mod failures;
mod replies;
