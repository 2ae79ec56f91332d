//! The adapters against a provider on loopback that speaks the real wire formats.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod anthropic;
mod bounds;
mod codex;
mod failures;
mod fake;
mod gemini;
mod grid;
mod openai;
mod quirks;
mod recording;
mod responses;
