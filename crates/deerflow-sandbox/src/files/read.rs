//! Reading whole files.

use std::fmt::Write as _;
use std::io::Read;

use rustix::fs::FileType;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::resolve::{file_stat, open_mount};
use super::{FileKind, FileStat, MAX_TEXT_BYTES, ThreadFiles};
use crate::text::{self, TextFile};
use crate::{SandboxError, VirtualPath};

impl ThreadFiles {
    /// The bytes of a regular file of at most `max` bytes.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::TooLarge`].
    pub fn read_bytes(&self, path: &VirtualPath, max: u64) -> Result<Vec<u8>, SandboxError> {
        self.read_with_stat(path, max).map(|(bytes, _)| bytes)
    }

    pub(super) fn read_with_stat(&self, path: &VirtualPath, max: u64) -> Result<(Vec<u8>, FileStat), SandboxError> {
        let (file, stat) = self.open_regular(path)?;
        let stat = file_stat(&stat);
        let too_large = |size| SandboxError::TooLarge { path: path.to_string(), size, limit: max };
        if stat.size > max {
            return Err(too_large(stat.size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0));
        // The file may grow while it is read.
        file.take(max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| SandboxError::io("reading", path.as_str(), &error))?;
        if bytes.len() as u64 > max {
            return Err(too_large(bytes.len() as u64));
        }
        Ok((bytes, stat))
    }

    /// A text file, decoded.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::Binary`]; [`SandboxError::TooLarge`].
    pub fn read_text(&self, path: &VirtualPath) -> Result<TextFile, SandboxError> {
        let (bytes, stat) = self.read_with_stat(path, MAX_TEXT_BYTES)?;
        let size = bytes.len() as u64;
        let sha256 = sha256_hex(&bytes);
        let Some(decoded) = text::decode(&bytes) else {
            return Err(SandboxError::Binary { path: path.to_string(), kind: text::binary_kind(&bytes), size });
        };
        Ok(TextFile {
            line_ending: text::line_ending(&decoded.text),
            final_newline: decoded.text.ends_with('\n'),
            encoding: decoded.encoding,
            bom: decoded.bom,
            text: decoded.text.into_owned(),
            mode: stat.mode,
            size,
            sha256,
        })
    }

    /// What is at a path, links followed.
    ///
    /// # Errors
    /// Any of the path errors.
    pub fn stat(&self, path: &VirtualPath) -> Result<FileStat, SandboxError> {
        let found = self.resolve(path.as_str(), false);
        if matches!(found, Err(SandboxError::NotFound { .. })) && self.is_virtual_parent(path.as_str()) {
            return Ok(FileStat { kind: FileKind::Directory, size: 0, mode: 0o755, modified_ms: 0 });
        }
        let found = found?;
        let stat = match (&found.name, found.stat) {
            (_, None) => return Err(SandboxError::at("reading", path.as_str(), Errno::NOENT)),
            (_, Some(stat)) => stat,
        };
        Ok(file_stat(&stat))
    }

    /// SHA-256 of a regular file, lower-case hex.
    ///
    /// # Errors
    /// Any of the path errors.
    pub fn sha256(&self, path: &VirtualPath) -> Result<String, SandboxError> {
        let (mut file, _) = self.open_regular(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = file.read(&mut buffer).map_err(|error| SandboxError::io("reading", path.as_str(), &error))?;
            if count == 0 {
                return Ok(hex(&hasher.finalize()));
            }
            hasher.update(&buffer[..count]);
        }
    }

    /// A path that is no mount but has mounts beneath it which exist.
    pub(super) fn is_virtual_parent(&self, path: &str) -> bool {
        self.mounts.lookup(path).is_none()
            && (path == crate::path::SKILLS
                || self.mounts.beneath(path).into_iter().any(|mount| open_mount(mount).is_ok()))
    }
}

/// SHA-256 of bytes, lower-case hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// True for directories, by raw mode.
pub(super) fn is_dir(mode: u32) -> bool {
    FileType::from_raw_mode(mode).is_dir()
}
