//! Takes files in.

use super::file::File;
use crate::refusal::Refusal;
use crate::service::Service;
use deerflow_core::{ThreadId, UserId};
use deerflow_documents::{Existing, Incoming, StageOptions, UploadError, UploadLimits, stage_open_files};
use serde::Serialize;
use utoipa::ToSchema;

/// Files that were taken in.
#[derive(Debug, Serialize, ToSchema)]
pub struct Uploaded {
    /// False when a file was skipped.
    pub success: bool,
    /// The files.
    pub files: Vec<File>,
    /// The outcome in words.
    #[schema(example = "Successfully uploaded 1 file(s)")]
    pub message: String,
    /// Names that something else than a plain file stands in the way of.
    pub skipped_files: Vec<String>,
}

impl Service {
    /// Takes files into a thread: all of them, or none when a limit is passed. A file of the same name is replaced; two of one
    /// name in one request are told apart by a number. Documents get a Markdown beside them. The thread may be made
    /// afterwards.
    ///
    /// # Errors
    /// Not found, for somebody else's thread; without a file; too many or too large.
    pub async fn upload(&self, user: &UserId, id: &ThreadId, files: Vec<Incoming>) -> Result<Uploaded, Refusal> {
        self.not_foreign(user, id).await?;
        if files.is_empty() {
            return Err(Refusal::bad_request("No files provided"));
        }
        let limits = (*self.config.section::<UploadLimits>()).clone();
        // The sandbox makes the folders for its user.
        let sandbox = self.harness.sandbox();
        sandbox.acquire(user.as_str(), id.as_str()).await.map_err(|error| Refusal::internal(&error))?;
        let paths = self.paths(user, id)?;
        let options = StageOptions {
            limits,
            converter: Some(self.harness.converter().clone()),
            owner: sandbox.file_owner(),
            existing: Existing::Replace,
        };
        let staged = stage_open_files(files, &paths.uploads(), &options).await.map_err(|error| match error {
            UploadError::FileTooLarge { path, .. } => Refusal::too_large(format!("File too large: {}", path.display())),
            UploadError::TotalTooLarge { .. } => Refusal::too_large("Total upload size too large"),
            UploadError::TooManyFiles { limit, .. } => {
                Refusal::too_large(format!("Too many files: maximum is {limit}"))
            }
            error => Refusal::internal(&error),
        })?;
        let file = |upload: deerflow_documents::Upload| {
            let mut file = File::new(id, upload.filename, upload.size)
                .called(upload.original_filename)
                .with_markdown(id, upload.markdown_file);
            file.warning = upload.warning;
            file
        };
        let files: Vec<File> = staged.uploads.into_iter().map(file).collect();
        let mut message = format!("Successfully uploaded {} file(s)", files.len());
        if !staged.skipped.is_empty() {
            message = format!("{message}; skipped {} unsafe file(s)", staged.skipped.len());
        }
        Ok(Uploaded { success: staged.skipped.is_empty(), files, message, skipped_files: staged.skipped })
    }
}
