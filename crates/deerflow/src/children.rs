//! Child processes of a program that embeds DeerFlow.
//!
//! Commands run in a sandbox, and documents are converted by a limited process. Both are the running program, started again
//! with an argument that it has to answer to.

use std::sync::atomic::{AtomicBool, Ordering};

static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Call it first in `main`, before any thread is started: in a child process it does the child's work and does not return.
///
/// Without it the isolated sandbox is not to be had, and documents are converted in this process.
pub fn answer_children() {
    if deerflow_sandbox::is_launcher_invocation() {
        deerflow_sandbox::launcher_main();
    }
    if deerflow_documents::is_worker_invocation() {
        deerflow_documents::worker_main();
    }
    ANSWERS.store(true, Ordering::Relaxed);
}

/// Whether [`answer_children`] was called.
pub(crate) fn answers() -> bool {
    ANSWERS.load(Ordering::Relaxed)
}
