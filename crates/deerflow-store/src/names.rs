//! Enumerations as the words the database holds.

use deerflow_core::StoreError;
use deerflow_core::ports::StepKind;
use deerflow_core::run::{Next, RunStatus};

pub(crate) fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Input => "input",
        StepKind::Model => "model",
        StepKind::Tools => "tools",
        StepKind::End => "end",
        StepKind::Effects => "effects",
        StepKind::Edit => "edit",
    }
}

pub(crate) fn kind(name: &str) -> Result<StepKind, StoreError> {
    use StepKind as K;
    [K::Input, K::Model, K::Tools, K::End, K::Effects, K::Edit]
        .into_iter()
        .find(|kind| kind_name(*kind) == name)
        .ok_or_else(|| StoreError::Damaged(format!("unknown step kind {name:?}")))
}

pub(crate) fn next_name(next: Next) -> &'static str {
    match next {
        Next::Model => "model",
        Next::Tools => "tools",
        Next::End => "end",
        Next::Wait => "wait",
        Next::Done => "done",
    }
}

pub(crate) fn next(name: &str) -> Result<Next, StoreError> {
    [Next::Model, Next::Tools, Next::End, Next::Wait, Next::Done]
        .into_iter()
        .find(|next| next_name(*next) == name)
        .ok_or_else(|| StoreError::Damaged(format!("unknown next node {name:?}")))
}

pub(crate) fn status(name: &str) -> Result<RunStatus, StoreError> {
    RunStatus::from_wire(name).ok_or_else(|| StoreError::Damaged(format!("unknown run status {name:?}")))
}

/// Status of a thread whose last run has this status.
pub(crate) fn thread_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued | RunStatus::Pending | RunStatus::Running => "busy",
        RunStatus::Success | RunStatus::RolledBack => "idle",
        RunStatus::Error | RunStatus::Timeout => "error",
        RunStatus::Interrupted => "interrupted",
    }
}

/// An id that was valid when it was stored.
pub(crate) fn id<T: TryFrom<String>>(text: String) -> Result<T, StoreError>
where
    T::Error: std::fmt::Display,
{
    T::try_from(text).map_err(|error| StoreError::Damaged(error.to_string()))
}

/// A count that SQL keeps signed.
pub(crate) fn unsigned(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged(format!("negative count {value}")))
}

/// A count as SQL keeps it. Counts never come near the limit.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Microseconds since 1970, UTC.
pub(crate) fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}
