//! What every outgoing request shares: the one HTTP client, server-sent event decoding, body limits, and how long to wait
//! before trying again.
//!
//! **Invariant:** this crate knows no provider and no protocol above HTTP and SSE, and every client in the process comes
//! from [`http_client`] (or from [`client_builder`]), so that there is one TLS set-up and one set of limits.

mod backoff;
mod body;
mod client;
mod proxy;
mod retry_after;
pub mod sse;

pub use backoff::Backoff;
pub use body::{BodyError, read_limited};
pub use client::{ClientError, HttpOptions, client_builder, http_client};
pub use proxy::{ProxyRules, is_loopback};
pub use retry_after::retry_after;
pub use sse::{SseDecoder, SseError, SseEvent, SseOptions, decode_sse};

pub use reqwest;
