//! Why something was not done.

use deerflow_core::StoreError;
use serde_json::{Value, json};
use std::fmt;

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request makes no sense.
    BadRequest,
    /// It is not allowed.
    Forbidden,
    /// There is no such thing, or it is somebody else's.
    NotFound,
    /// It does not fit the state that things are in.
    Conflict,
    /// It is too much.
    TooLarge,
    /// A value does not fit; the detail names the place.
    Invalid,
    /// The installation is at fault.
    Internal,
    /// This installation cannot do that.
    Unsupported,
    /// Not now: the service ends.
    Unavailable,
    /// The disk is full.
    DiskFull,
}

impl RefusalKind {
    /// The status of HTTP that stands for it.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Invalid => 422,
            Self::Internal => 500,
            Self::Unsupported => 501,
            Self::Unavailable => 503,
            Self::DiskFull => 507,
        }
    }
}

/// Why something was not done: nothing has changed then, unless an operation says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// What a client is told: a text, or a list of `{type, loc, msg, input}` when values do not fit.
    pub detail: Value,
    /// What happened, for who runs the installation; clients over the network are not told.
    pub cause: Option<String>,
}

impl Refusal {
    /// A refusal with a text.
    pub fn new(kind: RefusalKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: Value::String(detail.into()), cause: None }
    }
    /// The request makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::BadRequest, detail)
    }
    /// It is not allowed.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Forbidden, detail)
    }
    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, detail)
    }
    /// There is no such thread, in the words that also hide other users' threads.
    pub fn no_thread(id: &impl fmt::Display) -> Self {
        Self::not_found(format!("Thread {id} not found"))
    }
    /// It does not fit the state that things are in.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, detail)
    }
    /// It is too much.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::TooLarge, detail)
    }
    /// A value does not fit: `type`, where it is, what is wrong with it, and what was given.
    pub fn invalid(kind: &str, place: Value, message: impl Into<String>, input: Value) -> Self {
        let entry = json!({"type": kind, "loc": place, "msg": message.into(), "input": input});
        Self { kind: RefusalKind::Invalid, detail: json!([entry]), cause: None }
    }
    /// The installation is at fault. What happened goes to the log.
    pub fn internal(error: &dyn fmt::Display) -> Self {
        tracing::error!(%error, "request failed");
        Self { cause: Some(error.to_string()), ..Self::new(RefusalKind::Internal, "Internal Server Error") }
    }
    /// The disk is full.
    #[must_use]
    pub fn disk_full() -> Self {
        Self::new(RefusalKind::DiskFull, "The server's disk is full")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = &self.cause {
            return f.write_str(cause);
        }
        match &self.detail {
            Value::String(text) => f.write_str(text),
            Value::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let place = entry["loc"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let place: Vec<String> = place
                        .iter()
                        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                        .collect();
                    let end = if index > 0 { "; " } else { "" };
                    write!(f, "{end}{}: {}", place.join("."), entry["msg"].as_str().unwrap_or_default())?;
                }
                Ok(())
            }
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound { what: "thread", id } => Self::no_thread(id),
            StoreError::NotFound { what: "run", id } => Self::not_found(format!("Run {id} not found")),
            StoreError::NotFound { what: "checkpoint", id } => Self::not_found(format!("Checkpoint {id} not found")),
            StoreError::NotFound { .. } => Self::not_found(error.to_string()),
            StoreError::ThreadBusy { thread_id, .. } => {
                Self::conflict(format!("Thread {thread_id} already has an active run"))
            }
            StoreError::ModeMismatch { .. } | StoreError::Exists { .. } => Self::conflict(error.to_string()),
            StoreError::BadInput { field, reason } => {
                Self::invalid("value_error", json!(["body", field]), reason, Value::Null)
            }
            StoreError::DiskFull { .. } => Self::disk_full(),
            _ => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_refusal_reads_as_a_sentence() {
        let said = |refusal: Refusal| refusal.to_string();
        assert_eq!(said(Refusal::no_thread(&"t")), "Thread t not found");
        let entry = Refusal::invalid("missing", json!(["body", "input", 2]), "Field required", Value::Null);
        assert_eq!(said(entry), "body.input.2: Field required");
        let fault = Refusal::internal(&"the disk is on fire");
        assert_eq!((said(fault.clone()), fault.detail), ("the disk is on fire".into(), json!("Internal Server Error")));
    }
}
