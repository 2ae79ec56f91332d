//! The plain content of one directory: nothing left out, links told and not followed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType};

use super::ThreadFiles;
use crate::{SandboxError, VirtualPath};

const MAX_ENTRIES: usize = 10_000;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name; one that is not UTF-8 is left out of [`ThreadFiles::read_dir`].
    pub name: String,
    /// What it is; links are not followed.
    pub kind: EntryKind,
    /// Bytes, for files.
    pub size: u64,
    /// Last change, milliseconds since 1970.
    pub modified_ms: i64,
}

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Link,
    /// FIFO, socket, device.
    Other,
}

impl ThreadFiles {
    /// The entries of one directory in order of names, at most 10 000. What vanishes meanwhile is skipped.
    ///
    /// # Errors
    /// Any of the path errors.
    pub fn read_dir(&self, path: &VirtualPath) -> Result<Vec<DirEntry>, SandboxError> {
        let dir = self.open_dir(path.as_str())?;
        let fail = |errno| SandboxError::at("listing", path.as_str(), errno);
        let mut found = Vec::new();
        for entry in Dir::read_from(&dir).map_err(fail)?.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let Some(text) = name.to_str().filter(|name| *name != "." && *name != "..") else { continue };
            let Ok(stat) = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let stats = super::resolve::file_stat(&stat);
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            let size = if kind == EntryKind::File { stats.size } else { 0 };
            found.push(DirEntry { name: text.to_owned(), kind, size, modified_ms: stats.modified_ms });
            if found.len() >= MAX_ENTRIES {
                break;
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SandboxConfig, ThreadPaths};

    #[test]
    fn nothing_is_left_out_and_links_are_told() {
        let base = tempfile::tempdir().unwrap();
        let paths = ThreadPaths::new(base.path(), "u", "t").unwrap();
        paths.ensure().unwrap();
        std::fs::write(paths.uploads().join("server.log"), "abc").unwrap();
        std::fs::create_dir(paths.uploads().join("build")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", paths.uploads().join("a-link")).unwrap();
        let files = ThreadFiles::new(&paths, &SandboxConfig::default(), None);
        let found = files.read_dir(&VirtualPath::uploads()).unwrap();
        let told: Vec<_> = found.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size)).collect();
        let wanted =
            [("a-link", EntryKind::Link, 0), ("build", EntryKind::Directory, 0), ("server.log", EntryKind::File, 3)];
        assert_eq!(told, wanted);
    }
}
