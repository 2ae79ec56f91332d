//! Files of a thread, for people to look at, to take and to change.

mod edit;
mod ranges;
mod show;
mod source;

use crate::app::AppState;
use deerflow_core::ThreadId;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show::show, edit::edit))
}

#[derive(Debug, Deserialize, IntoParams)]
struct ArtifactPath {
    /// Id of a thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// Path of the file as the agent sees it, without the first slash.
    #[param(example = "mnt/user-data/outputs/report.md")]
    path: String,
}
