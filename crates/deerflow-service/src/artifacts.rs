//! Files of a thread, for people to look at and to take.

mod kind;
mod member;
mod open;

pub use kind::is_active;
pub use open::{Artifact, ArtifactSource};

use crate::refusal::Refusal;
use crate::service::Service;
use deerflow_core::{ThreadId, UserId};
use deerflow_sandbox::{Sandbox, SandboxError, USER_DATA, VirtualPath};
use std::sync::Arc;

/// Largest file that clients can change, in bytes.
pub const EDITABLE: u64 = 2 << 20;

/// A file of a thread that is asked for.
pub struct Place {
    /// The sandbox it is in.
    pub sandbox: Arc<dyn Sandbox>,
    /// Where in it.
    pub path: VirtualPath,
}

impl Service {
    /// Finds the place that a client means by `mnt/user-data/…`. Makes nothing.
    ///
    /// # Errors
    /// Not found; for a path that leads elsewhere, or is none.
    pub async fn place(&self, user: &UserId, id: &ThreadId, path: &str) -> Result<Place, Refusal> {
        self.not_foreign(user, id).await?;
        let wanted = format!("/{}", path.trim_start_matches('/'));
        if wanted.split(['/', '\\']).any(|name| name == "..") {
            return Err(Refusal::forbidden("Access denied: path traversal detected"));
        }
        if !wanted.strip_prefix(USER_DATA).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Refusal::bad_request(format!("Invalid path: it must begin with {}/", &USER_DATA[1..])));
        }
        if !self.paths(user, id)?.user_data().exists() {
            return Err(self.no_file(user, id, format!("Artifact not found: {path}")).await);
        }
        let sandbox = self.harness.sandbox().acquire(user.as_str(), id.as_str()).await;
        let sandbox = sandbox.map_err(|error| Refusal::internal(&error))?;
        let path = sandbox.parse_path(&wanted).map_err(|error| told(error, path))?;
        Ok(Place { sandbox, path })
    }
}

/// What a client is told of a path that cannot be opened.
#[must_use]
pub fn told(error: SandboxError, path: &str) -> Refusal {
    match error {
        SandboxError::NotFound { .. } | SandboxError::NotDirectory { .. } => {
            Refusal::not_found(format!("Artifact not found: {path}"))
        }
        SandboxError::IsDirectory { .. } | SandboxError::NotRegular { .. } => {
            Refusal::bad_request(format!("Path is not a file: {path}"))
        }
        SandboxError::OutsideRoot { .. }
        | SandboxError::LinkLoop { .. }
        | SandboxError::PermissionDenied { .. }
        | SandboxError::ReadOnly { .. } => Refusal::forbidden(format!("Access denied: {path}")),
        SandboxError::InvalidPath { reason, .. } => Refusal::bad_request(format!("Invalid path: {reason}")),
        SandboxError::TooLarge { .. } => Refusal::too_large("The file is too large"),
        SandboxError::DiskFull { .. } => Refusal::disk_full(),
        error => Refusal::internal(&error),
    }
}
