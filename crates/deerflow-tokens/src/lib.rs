//! Token estimates: how much of a context window a text or a message takes.
//!
//! **Invariant:** no network, no tables, no I/O; time is linear in the text. Estimates steer summarisation and budgets only.
//! What a call really cost is what its provider reports, and [`Calibration`] learns from that.

mod calibration;
mod counter;
mod cut;
mod message;
mod scanner;

pub use calibration::Calibration;
pub use counter::TokenCounter;
pub use cut::cut_graphemes;
pub use message::{IMAGE_TOKENS, message_tokens, request_tokens, tool_tokens};
pub use scanner::{Scanner, text_tokens};
