//! Files inside a `.skill` archive.

use crate::refusal::Refusal;
use std::fs::File;
use std::io::Read as _;
use zip::ZipArchive;

/// Largest member shown, in bytes.
const MOST: u64 = 16 << 20;
/// Largest archive opened, in bytes.
const ARCHIVE: u64 = 256 << 20;

/// `a/x.skill/b/c` as `a/x.skill` and `b/c`.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let at = path.find(".skill/")? + ".skill".len();
    let inner = &path[at + 1..];
    (!inner.is_empty()).then_some((&path[..at], inner))
}

/// The bytes of a member: the one of exactly this name, else the first whose name ends with it. Blocks.
pub(super) fn read(archive: File, size: u64, inner: &str, path: &str) -> Result<Vec<u8>, Refusal> {
    let unreadable = || Refusal::bad_request(format!("Not a readable archive: {path}"));
    let too_large = || Refusal::too_large("The file in the archive is too large");
    if size > ARCHIVE {
        return Err(too_large());
    }
    let mut zip = ZipArchive::new(archive).map_err(|_| unreadable())?;
    let ending = format!("/{inner}");
    let exact = zip.index_for_name(inner);
    let index = exact.or_else(|| {
        (0..zip.len()).find(|index| {
            zip.by_index_raw(*index).ok().and_then(|file| file.name().ok().map(|name| name.ends_with(&ending)))
                == Some(true)
        })
    });
    let Some(index) = index else { return Err(Refusal::not_found(format!("Artifact not found: {path}"))) };
    let member = zip.by_index(index).map_err(|_| unreadable())?;
    if member.is_dir() {
        return Err(Refusal::bad_request(format!("Path is not a file: {path}")));
    }
    let mut bytes = Vec::new();
    // What it unpacks to is counted: what an archive says of itself is only said.
    member.take(MOST + 1).read_to_end(&mut bytes).map_err(|_| unreadable())?;
    if bytes.len() as u64 > MOST { Err(too_large()) } else { Ok(bytes) }
}
