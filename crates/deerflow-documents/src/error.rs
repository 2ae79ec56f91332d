//! Errors, told so that a user knows what to do next.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::kind::DocumentKind;

/// Why a document could not become Markdown. The original file is never touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum ConvertError {
    /// The input is larger than [`Limits::max_input_bytes`](crate::Limits::max_input_bytes).
    #[error("the file is {} and the limit is {}: split it into smaller files", human_size(*.size), human_size(*.limit))]
    TooLarge {
        /// Bytes in the input.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The document needs a password.
    #[error("the document is encrypted: save a copy without the password and upload that copy")]
    Encrypted,
    /// Pages without text: a scan.
    #[error(
        "no text layer: the {pages} page(s) hold only scanned images, so there is no text to read; \
         run text recognition (OCR) on the file and upload it again, or look at the pages as images"
    )]
    NoTextLayer {
        /// Pages in the document.
        pages: u32,
    },
    /// The file unpacks to more than the limits allow.
    #[error("the file unpacks to more than is allowed ({reason}): it looks like a decompression bomb and was not read")]
    Bomb {
        /// Which limit, with its value.
        reason: String,
    },
    /// The file does not follow its own format.
    #[error(
        "the file is damaged ({reason}): open it in the program that made it, save it again and upload the new copy"
    )]
    Damaged {
        /// What was wrong.
        reason: String,
    },
    /// There is no text in this kind of file, or no reader for it.
    #[error("no text can be taken from {} files{}", .kind.label(), hint_text(.hint))]
    Unsupported {
        /// What the file is.
        kind: DocumentKind,
        /// What to do instead; may be empty.
        hint: String,
    },
    /// The time limit passed.
    #[error("the conversion took longer than {seconds} s and was stopped: split the document into smaller files")]
    Timeout {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The path names a directory, a device or a socket.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// The path as given.
        path: String,
    },
    /// Reading failed.
    #[error("the file could not be read: {reason}")]
    Io {
        /// The system's message.
        reason: String,
    },
}

impl From<std::io::Error> for ConvertError {
    fn from(error: std::io::Error) -> Self {
        Self::Io { reason: error.to_string() }
    }
}

/// Why a set of files was not staged. Nothing was written when one of these is returned.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// More files than [`UploadLimits::max_files`](crate::UploadLimits::max_files).
    #[error("{count} files were given and the limit is {limit}: upload fewer files at a time")]
    TooManyFiles {
        /// Files given.
        count: usize,
        /// Files allowed.
        limit: usize,
    },
    /// A file does not exist.
    #[error("`{}` does not exist", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A path names a directory.
    #[error("`{}` is a directory: name the files in it, or pack them into one archive", .path.display())]
    Directory {
        /// The path as given.
        path: PathBuf,
    },
    /// A path names a device, a pipe or a socket.
    #[error("`{}` is not a regular file", .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// A file cannot be opened.
    #[error("`{}` cannot be read: {source}", .path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// One file is over the limit.
    #[error("`{}` is {} and the limit for one file is {}", .path.display(), human_size(*.size), human_size(*.limit))]
    FileTooLarge {
        /// The path as given.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The files together are over the limit.
    #[error("the files are {} together and the limit is {}", human_size(*.size), human_size(*.limit))]
    TotalTooLarge {
        /// Their size in bytes.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The name has no usable base name.
    #[error("`{}` has no usable file name", .path.display())]
    BadName {
        /// The path as given.
        path: PathBuf,
    },
    /// The uploads folder itself is a link or is not a folder.
    #[error("the uploads folder `{}` is not a plain folder", .path.display())]
    BadFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The uploads folder could not be written.
    #[error("the uploads folder `{}` cannot be written: {source}", .path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

fn hint_text(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(": {hint}") }
}

/// A size as people say it: `812 bytes`, `1.5 MiB`.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if bytes >= size {
            #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
            let value = bytes as f64 / size as f64;
            return if value.fract() < 0.05 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
    }
    format!("{bytes} bytes")
}
