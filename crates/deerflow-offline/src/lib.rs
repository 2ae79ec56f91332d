//! The built-in model: no network, no weights, the same answer to the same conversation every time.
//!
//! [`OfflineModel`] reads the attached files through tool calls, picks key sentences and figures by rules, writes a report
//! that quotes them with page or line, presents it and sums it up. It never writes a sentence of its own about the
//! subject: what it says is quoted, counted or about itself, and each report and answer says in its first line that no
//! language model wrote it.
//!
//! The way through: `stream` asks `conversation` what was read and done so far; when all is read, `corpus` cuts the files
//! into sentences and marks each, `findings` gathers causes and picks what to quote, and `report` words it. `lexicon` knows
//! the request; its word lists, cues and wordings in both languages are data, in the `.txt` files beside the code.
//!
//! **Invariant:** a reply is a pure function of the [`ChatRequest`](deerflow_core::ChatRequest). There is no state
//! between calls, no clock, no randomness, no file access; what has been read is what the tool results in the history
//! say, and every chain of replies ends.

mod conversation;
mod corpus;
mod findings;
mod lexicon;
mod report;
mod stream;
#[cfg(test)]
mod tests;

pub use stream::OfflineModel;
