//! Opens a file to be read.

use super::kind::media_type;
use super::{EDITABLE, Place, member, told};
use crate::refusal::{Refusal, RefusalKind};
use crate::service::Service;
use deerflow_core::{ThreadId, UserId};
use deerflow_sandbox::{SandboxError, ThreadFiles, VirtualPath};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

/// Bytes looked at to tell text from other files.
const START: u64 = 8192;

/// Where the bytes are.
#[derive(Debug)]
pub enum ArtifactSource {
    /// An open file that stands at its beginning.
    File(File),
    /// Memory.
    Memory(Vec<u8>),
}

/// A file that can be read.
#[derive(Debug)]
pub struct Artifact {
    /// Its name.
    pub name: String,
    /// Where the bytes are.
    pub source: ArtifactSource,
    /// How many.
    pub size: u64,
    /// Media type, with the charset of texts.
    pub media_type: String,
    /// SHA-256 of what is up to 2 MiB; of larger files a digest that changes with them.
    pub etag: String,
    /// Last change in seconds since 1970; none for what is in an archive.
    pub modified: Option<i64>,
}

impl Artifact {
    /// All of its bytes. Blocks.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn into_bytes(self) -> std::io::Result<Vec<u8>> {
        match self.source {
            ArtifactSource::Memory(bytes) => Ok(bytes),
            ArtifactSource::File(file) => {
                let mut bytes = Vec::new();
                file.take(self.size).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Service {
    /// Opens a file of a thread by its path `mnt/user-data/…`. A path that goes on after `….skill/` names a file in that
    /// archive.
    ///
    /// # Errors
    /// Not found; for a path that leads elsewhere, or is none; when files are on another machine.
    pub async fn artifact(&self, user: &UserId, id: &ThreadId, path: &str) -> Result<Artifact, Refusal> {
        let Place { sandbox, path: virtual_path } = self.place(user, id, path).await?;
        let no_files = || Refusal::new(RefusalKind::Unsupported, "Files of this sandbox are not on this machine");
        let files = sandbox.files().ok_or_else(no_files)?;
        let path = path.to_owned();
        let found = tokio::task::spawn_blocking(move || open(&files, &virtual_path, &path)).await;
        found.map_err(|error| Refusal::internal(&error))?
    }
}

fn open(files: &Arc<ThreadFiles>, virtual_path: &VirtualPath, path: &str) -> Result<Artifact, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::internal(&error);
    match files.open(virtual_path) {
        Ok((mut file, stat)) => {
            let mut start = Vec::new();
            (&file).take(START).read_to_end(&mut start).map_err(unreadable)?;
            let name = virtual_path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            let etag = if stat.size <= EDITABLE {
                let mut bytes = Vec::new();
                (&file).take(EDITABLE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
                hex(&Sha256::digest(&bytes))
            } else {
                // Reading all of a large file for each of its ranges would cost more than it tells.
                hex(&Sha256::digest(format!("{}-{}", stat.modified_ms, stat.size)))[..32].to_owned()
            };
            file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            Ok(Artifact {
                media_type: media_type(&name, &start),
                name,
                source: ArtifactSource::File(file),
                size: stat.size,
                etag,
                modified: Some(stat.modified_ms.div_euclid(1000)),
            })
        }
        Err(error @ (SandboxError::NotFound { .. } | SandboxError::NotDirectory { .. })) => {
            let Some((archive, inner)) = member::split(virtual_path.as_str()) else { return Err(told(error, path)) };
            let archive = files.parse(archive).map_err(|error| told(error, path))?;
            let (file, stat) = files.open(&archive).map_err(|error| told(error, path))?;
            let bytes = member::read(file, stat.size, inner, path)?;
            let name = inner.rsplit('/').next().unwrap_or(inner).to_owned();
            Ok(Artifact {
                media_type: media_type(&name, &bytes[..bytes.len().min(8192)]),
                name,
                size: bytes.len() as u64,
                etag: hex(&Sha256::digest(&bytes)),
                source: ArtifactSource::Memory(bytes),
                modified: None,
            })
        }
        Err(error) => Err(told(error, path)),
    }
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
