//! Why a client did not get what it asked for.

use deerflow_core::RunId;
use deerflow_service::Refusal;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run did not end well.
    #[error("run {run_id} ended with {status}{}", .error.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    Run {
        /// The run.
        run_id: RunId,
        /// How it ended: `error`, `timeout` or `interrupted`.
        status: String,
        /// What went wrong.
        error: Option<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
