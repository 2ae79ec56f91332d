//! Questions that stop a run until a person has answered.

use crate::ThreadState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the private slot in which a thread keeps its open questions.
pub const INTERRUPT_SLOT: &str = "__interrupt__";

/// A question to a person that a middleware stopped the run with. The wire shape of an entry of `__interrupt__`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Identity of the question.
    pub id: String,
    /// What is asked, in the shape that the client and the middleware agreed on.
    pub value: Value,
    /// Class name of the middleware that asks; it gets the answer.
    pub node: String,
}

impl ThreadState {
    /// Questions that wait for an answer.
    #[must_use]
    pub fn interrupts(&self) -> Vec<Interrupt> {
        self.private.get(INTERRUPT_SLOT).and_then(|open| serde_json::from_value(open.clone()).ok()).unwrap_or_default()
    }
}
