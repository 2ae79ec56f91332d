//! Files of the embedded client.

use super::{ClientError, DeerFlowClient};
use deerflow_core::ThreadId;
use deerflow_documents::Incoming;
use deerflow_service::{Artifact, Files, Gone, Limits, Refusal, Uploaded};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

impl DeerFlowClient {
    /// Takes files into a thread: all of them, or none. Documents get a Markdown beside them. A file of the same name is
    /// replaced; two of one name in one call are told apart by a number.
    ///
    /// # Errors
    /// [`ClientError::File`] for what is no readable file, before anything is taken in; too many or too large.
    pub async fn upload_files(&self, id: &ThreadId, files: &[impl AsRef<Path>]) -> Result<Uploaded, ClientError> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.as_ref().to_owned()).collect();
        let opened =
            tokio::task::spawn_blocking(move || files.iter().map(|file| open(file)).collect::<Result<Vec<_>, _>>());
        let opened = opened.await.map_err(|error| Refusal::internal(&error))??;
        Ok(self.service.upload(self.user_id(), id, opened).await?)
    }

    /// Takes bytes into a thread as a file of this name.
    ///
    /// # Errors
    /// Too large.
    pub async fn upload_bytes(&self, id: &ThreadId, name: &str, bytes: Vec<u8>) -> Result<Uploaded, ClientError> {
        let (name, home) = (name.to_owned(), self.service.config.home().to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::tempfile_in(home)?;
            file.write_all(&bytes)?;
            file.rewind()?;
            Ok::<_, io::Error>(Incoming { name, file })
        });
        let made = made.await.map_err(|error| Refusal::internal(&error))?;
        let made = made.map_err(|error| Refusal::internal(&error))?;
        Ok(self.service.upload(self.user_id(), id, vec![made]).await?)
    }

    /// The uploaded files of a thread.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn uploads(&self, id: &ThreadId) -> Result<Files, Refusal> {
        self.service.uploads(self.user_id(), id).await
    }

    /// What may be uploaded at once.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn upload_limits(&self, id: &ThreadId) -> Result<Limits, Refusal> {
        self.service.upload_limits(self.user_id(), id).await
    }

    /// Takes an uploaded file away, and the Markdown that was made of it.
    ///
    /// # Errors
    /// Not found; for what is no name of a file.
    pub async fn delete_upload(&self, id: &ThreadId, filename: &str) -> Result<Gone, Refusal> {
        self.service.delete_upload(self.user_id(), id, filename).await
    }

    /// A file of a thread by its path as the agent sees it, `/mnt/user-data/outputs/report.md`: its bytes and its media type.
    ///
    /// # Errors
    /// Not found; for a path that leads elsewhere, or is none.
    pub async fn artifact(&self, id: &ThreadId, path: &str) -> Result<(Vec<u8>, String), Refusal> {
        let artifact = self.open_artifact(id, path).await?;
        let media_type = artifact.media_type.clone();
        let bytes = tokio::task::spawn_blocking(move || artifact.into_bytes()).await;
        let bytes = bytes.map_err(|error| Refusal::internal(&error))?;
        Ok((bytes.map_err(|error| Refusal::internal(&error))?, media_type))
    }

    /// The same file, open, with its size and its time.
    ///
    /// # Errors
    /// As [`Self::artifact`].
    pub async fn open_artifact(&self, id: &ThreadId, path: &str) -> Result<Artifact, Refusal> {
        self.service.artifact(self.user_id(), id, path).await
    }
}

fn open(path: &Path) -> Result<Incoming, ClientError> {
    let unreadable = |source| ClientError::File { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| unreadable(io::ErrorKind::InvalidInput.into()))?;
    let name = name.to_string_lossy().into_owned();
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file")));
    }
    Ok(Incoming { name, file: File::open(path).map_err(unreadable)? })
}
