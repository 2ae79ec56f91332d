//! Staging: user files into a thread's uploads folder, all or nothing.
//!
//! Every file is opened and checked before anything is written. Bytes go to `.upload-*.part` files through a handle of
//! the folder, then each is renamed to its final name without replacing anything: what stands there — a link an agent
//! left, another upload — is neither followed nor overwritten. When one step fails, everything this request wrote is
//! removed.

mod folder;
mod names;

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::UploadError;
use crate::kind::DocumentKind;
use crate::limits::UploadLimits;
use crate::worker::Converter;
use folder::Folder;
pub use names::{safe_filename, unique_name};

/// How files are staged.
#[derive(Debug, Clone, Default)]
pub struct StageOptions {
    /// Caps on the request.
    pub limits: UploadLimits,
    /// Converts documents; `None` makes no companions.
    pub converter: Option<Converter>,
    /// User and group the files are given to, for a sandbox that runs as somebody else.
    pub owner: Option<(u32, u32)>,
    /// What becomes of a file that has the name already.
    pub existing: Existing,
}

/// What becomes of a file that stands where an upload belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// It stays; the upload gets another name.
    #[default]
    Keep,
    /// The upload takes its place at once. What is no plain file (a link, a directory, a file with a second name) is left
    /// alone, and that upload is skipped.
    Replace,
}

/// A file that is open already, with the name its sender gave it.
#[derive(Debug)]
pub struct Incoming {
    /// The name; made safe before it is used.
    pub name: String,
    /// The bytes, from where the file stands.
    pub file: std::fs::File,
}

/// What [`stage_open_files`] did.
#[derive(Debug, Default)]
pub struct Staged {
    /// Files that are in the folder now.
    pub uploads: Vec<Upload>,
    /// Names that something else than a plain file stands in the way of.
    pub skipped: Vec<String>,
}

/// One staged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// Its name in the uploads folder.
    pub filename: String,
    /// Its size in bytes.
    pub size: u64,
    /// The Markdown companion's name in the uploads folder, for documents that could be converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown_file: Option<String>,
    /// What the user should know: why there is no companion, or what it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The name the user gave, when the staged name differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_filename: Option<String>,
}

/// Copies `sources` into `uploads_dir` (made when missing) and converts documents beside them.
///
/// Names are NFC-normalised base names; a taken name gets `_1`, `_2`… before its extension, unless the file there has
/// the same bytes, which is then reused. Companions are `<stem>.md`, from the same set of names. Files are mode 0644.
/// A conversion that fails is a warning, not an error: the original is staged all the same.
///
/// # Errors
/// See [`UploadError`]; the folder is then as it was.
///
/// # Cancel safety
/// Not cancel-safe for the copy, which runs to its end on a blocking thread; conversions may be dropped, and leave
/// originals without companions.
pub async fn stage_files(
    sources: &[PathBuf],
    uploads_dir: &Path,
    options: &StageOptions,
) -> Result<Vec<Upload>, UploadError> {
    let (owned, limits) = (sources.to_vec(), options.limits.clone());
    let checked = tokio::task::spawn_blocking(move || check_all(&owned, &limits)).await;
    let checked = checked.map_err(|error| write_error(uploads_dir, std::io::Error::other(error)))??;
    Ok(stage(checked, uploads_dir, options).await?.uploads)
}

/// The same for files that are open already, from a network say. Names without a usable base name are left out.
///
/// # Errors
/// See [`UploadError`]; the folder is then as it was, but for files that were replaced before the folder failed.
///
/// # Cancel safety
/// As [`stage_files`].
pub async fn stage_open_files(
    files: Vec<Incoming>,
    uploads_dir: &Path,
    options: &StageOptions,
) -> Result<Staged, UploadError> {
    if files.len() > options.limits.max_files {
        return Err(UploadError::TooManyFiles { count: files.len(), limit: options.limits.max_files });
    }
    let named = |Incoming { name: original, file }: Incoming| {
        let name = safe_filename(&original)?;
        Some(Source { path: PathBuf::from(&original), name, original, file })
    };
    stage(files.into_iter().filter_map(named).collect(), uploads_dir, options).await
}

async fn stage(sources: Vec<Source>, uploads_dir: &Path, options: &StageOptions) -> Result<Staged, UploadError> {
    let (dir, settings) = (uploads_dir.to_owned(), options.clone());
    let copied = tokio::task::spawn_blocking(move || copy_all(sources, &dir, &settings)).await;
    let mut staged = copied.map_err(|error| write_error(uploads_dir, std::io::Error::other(error)))??;
    if let Some(converter) = &options.converter {
        for upload in &mut staged.uploads {
            add_companion(upload, uploads_dir, converter, options.owner).await;
        }
    }
    Ok(staged)
}

/// Removes a file from an uploads folder, a link rather than what it leads to. `Ok(false)` when there is no such file.
/// Blocks.
///
/// # Errors
/// [`UploadError`].
pub fn remove_upload(uploads_dir: &Path, name: &str) -> Result<bool, UploadError> {
    if safe_filename(name).as_deref() != Some(name) {
        return Ok(false);
    }
    if !uploads_dir.exists() {
        return Ok(false);
    }
    Folder::open(uploads_dir)?.remove(name).map_err(|source| write_error(uploads_dir, source))
}

fn write_error(path: &Path, source: std::io::Error) -> UploadError {
    UploadError::Write { path: path.to_owned(), source }
}

/// A source that passed every check, open.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    name: String,
    original: String,
    file: std::fs::File,
}

fn copy_all(sources: Vec<Source>, dir: &Path, options: &StageOptions) -> Result<Staged, UploadError> {
    let failed = |source| write_error(dir, source);
    let folder = Folder::open(dir)?;
    let mut batch = folder.batch();
    let mut parts = Vec::with_capacity(sources.len());
    let mut total = 0_u64;
    for mut source in sources {
        // Counted again while copying: a file can grow after it was looked at.
        let limit = options.limits.max_file_size;
        let (part, digest, size) = batch.write_part(&mut source.file, limit).map_err(failed)?;
        if size > limit {
            return Err(UploadError::FileTooLarge { path: source.path, size, limit });
        }
        total = total.saturating_add(size);
        if total > options.limits.max_total_size {
            return Err(UploadError::TotalTooLarge { size: total, limit: options.limits.max_total_size });
        }
        parts.push((source, part, digest, size));
    }
    // Nothing has its name before all of them are there.
    let mut staged = Staged::default();
    for (source, part, digest, size) in parts {
        let published = match options.existing {
            Existing::Keep => batch.publish(&part, &source.name, (size, digest), options.owner).map(Some),
            Existing::Replace => batch.replace(&part, &source.name, options.owner),
        };
        let Some(filename) = published.map_err(failed)? else {
            staged.skipped.push(source.original);
            continue;
        };
        let original_filename = (filename != source.original).then_some(source.original);
        staged.uploads.push(Upload { filename, size, markdown_file: None, warning: None, original_filename });
    }
    batch.keep();
    Ok(staged)
}

/// Opens and checks every file before anything is written.
fn check_all(sources: &[PathBuf], limits: &UploadLimits) -> Result<Vec<Source>, UploadError> {
    if sources.len() > limits.max_files {
        return Err(UploadError::TooManyFiles { count: sources.len(), limit: limits.max_files });
    }
    let mut total = 0_u64;
    let mut checked = Vec::with_capacity(sources.len());
    for path in sources {
        let path = path.clone();
        let original = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(UploadError::Missing { path }),
            Err(source) => return Err(UploadError::Unreadable { path, source }),
        };
        if metadata.is_dir() {
            return Err(UploadError::Directory { path });
        }
        if !metadata.is_file() {
            return Err(UploadError::NotAFile { path });
        }
        let Some(name) = safe_filename(&original) else { return Err(UploadError::BadName { path }) };
        // Not blocking, should the file have become a pipe since.
        let flags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY).bits().cast_signed();
        let file = match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(source) => return Err(UploadError::Unreadable { path, source }),
        };
        let (size, limit) = (metadata.len(), limits.max_file_size);
        if size > limit {
            return Err(UploadError::FileTooLarge { path, size, limit });
        }
        total = total.saturating_add(size);
        checked.push(Source { path, name, original, file });
    }
    if total > limits.max_total_size {
        return Err(UploadError::TotalTooLarge { size: total, limit: limits.max_total_size });
    }
    Ok(checked)
}

/// Converts one staged document and puts the Markdown beside it. What fails is a warning: the original is staged.
async fn add_companion(upload: &mut Upload, dir: &Path, converter: &Converter, owner: Option<(u32, u32)>) {
    let (path, name) = (dir.to_owned(), upload.filename.clone());
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        Folder::open(&path).ok()?.open_file(&name).ok()?.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    });
    let Ok(Some(bytes)) = read.await else { return };
    if !DocumentKind::detect(&upload.filename, &bytes).wants_companion() {
        return;
    }
    let converted = match converter.convert(&upload.filename, bytes).await {
        Ok(converted) => converted,
        Err(error) => {
            upload.warning = Some(format!("no Markdown was made: {error}"));
            return;
        }
    };
    if !converted.warnings.is_empty() {
        upload.warning = Some(converted.warnings.join("; "));
    }
    let stem = upload.filename.rsplit_once('.').map_or(upload.filename.as_str(), |(stem, _)| stem);
    let (path, wanted) = (dir.to_owned(), format!("{stem}.md"));
    let written = tokio::task::spawn_blocking(move || {
        let folder = Folder::open(&path).map_err(std::io::Error::other)?;
        let mut batch = folder.batch();
        let (part, digest, size) = batch.write_part(&mut converted.markdown.as_bytes(), u64::MAX)?;
        let name = batch.publish(&part, &wanted, (size, digest), owner)?;
        batch.keep();
        Ok::<_, std::io::Error>(name)
    });
    match written.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        Ok(name) => upload.markdown_file = Some(name),
        Err(error) => upload.warning = Some(format!("no Markdown was made: it could not be written: {error}")),
    }
}
