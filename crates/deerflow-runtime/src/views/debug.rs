//! LangGraph's `debug` stream: checkpoints and tasks, with step and time.

use jiff::Timestamp;
use serde::Serialize;

/// A debug frame.
#[derive(Serialize)]
pub(super) struct DebugFrame<T> {
    step: u64,
    timestamp: String,
    #[serde(rename = "type")]
    kind: &'static str,
    payload: T,
}

/// `kind` is `checkpoint`, `task` or `task_result`; `at` is in microseconds since 1970, UTC.
pub(super) fn debug<T>(step: u64, at: i64, kind: &'static str, payload: T) -> DebugFrame<T> {
    let at = Timestamp::from_microsecond(at).unwrap_or_default();
    DebugFrame { step, timestamp: at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string(), kind, payload }
}
