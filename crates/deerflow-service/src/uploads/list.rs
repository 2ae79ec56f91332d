//! What was uploaded, and what may be; takes it away.

use super::file::{File, companion};
use crate::refusal::Refusal;
use crate::service::Service;
use deerflow_core::{ThreadId, UserId};
use deerflow_documents::{UploadError, UploadLimits, remove_upload, safe_filename};
use deerflow_sandbox::{EntryKind, UPLOADS};
use serde::Serialize;
use std::collections::HashSet;
use utoipa::ToSchema;

/// Limits of one request.
#[derive(Debug, Serialize, ToSchema)]
pub struct Limits {
    /// Files.
    pub max_files: usize,
    /// Bytes of one file.
    pub max_file_size: u64,
    /// Bytes of all of them.
    pub max_total_size: u64,
}

/// Uploaded files.
#[derive(Debug, Serialize, ToSchema)]
pub struct Files {
    /// By name.
    pub files: Vec<File>,
    /// How many.
    pub count: usize,
}

/// That a file is gone.
#[derive(Debug, Serialize, ToSchema)]
pub struct Gone {
    /// Always true.
    pub success: bool,
    /// What was done.
    pub message: String,
}

impl Service {
    /// The limits of uploads to a thread.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn upload_limits(&self, user: &UserId, id: &ThreadId) -> Result<Limits, Refusal> {
        self.not_foreign(user, id).await?;
        let limits = self.config.section::<UploadLimits>();
        Ok(Limits {
            max_files: limits.max_files,
            max_file_size: limits.max_file_size,
            max_total_size: limits.max_total_size,
        })
    }

    /// The uploaded files of a thread.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn uploads(&self, user: &UserId, id: &ThreadId) -> Result<Files, Refusal> {
        self.not_foreign(user, id).await?;
        // Looking at a thread makes no folders.
        if !self.paths(user, id)?.uploads().exists() {
            return Ok(Files { files: Vec::new(), count: 0 });
        }
        let sandbox = self.harness.sandbox().acquire(user.as_str(), id.as_str()).await;
        let sandbox = sandbox.map_err(|error| Refusal::internal(&error))?;
        let folder = sandbox.parse_path(UPLOADS).map_err(|error| Refusal::internal(&error))?;
        let entries = sandbox.read_dir(&folder).await.map_err(|error| Refusal::internal(&error))?;
        let entries: Vec<_> =
            entries.into_iter().filter(|entry| entry.kind == EntryKind::File && !is_part(&entry.name)).collect();
        let names: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let file = |entry: &deerflow_sandbox::DirEntry| {
            let markdown = companion(&entry.name).filter(|name| names.contains(name.as_str()));
            File::new(id, entry.name.clone(), entry.size).modified(entry.modified_ms).with_markdown(id, markdown)
        };
        let files: Vec<File> = entries.iter().map(file).collect();
        Ok(Files { count: files.len(), files })
    }

    /// Takes an uploaded file away, and the Markdown that was made of it.
    ///
    /// # Errors
    /// Not found: the file, or the thread is somebody else's; for what is no name of a file.
    pub async fn delete_upload(&self, user: &UserId, id: &ThreadId, filename: &str) -> Result<Gone, Refusal> {
        self.not_foreign(user, id).await?;
        if safe_filename(filename).as_deref() != Some(filename) {
            return Err(Refusal::bad_request("Invalid path"));
        }
        let paths = self.paths(user, id)?;
        let name = filename.to_owned();
        let removed = tokio::task::spawn_blocking(move || {
            let removed = remove_upload(&paths.uploads(), &name)?;
            if removed && let Some(markdown) = companion(&name) {
                remove_upload(&paths.uploads(), &markdown)?;
            }
            Ok::<_, UploadError>(removed)
        });
        let removed = removed.await.map_err(|error| Refusal::internal(&error))?;
        if !removed.map_err(|error| Refusal::internal(&error))? {
            return Err(self.no_file(user, id, format!("File not found: {filename}")).await);
        }
        Ok(Gone { success: true, message: format!("Deleted {filename}") })
    }
}

/// Whether a file of this name is being written.
fn is_part(name: &str) -> bool {
    (name.starts_with(".upload-") && name.ends_with(".part"))
        || (name.starts_with(".deerflow-") && name.ends_with(".tmp"))
}
