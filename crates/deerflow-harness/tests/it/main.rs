//! The harness as a whole: its chain under random and long conversations, and its documentation.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod chaos;
mod conversations;
mod long_conversation;
mod middleware_docs;
