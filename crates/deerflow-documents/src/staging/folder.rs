//! The uploads folder behind a handle: nothing here resolves a path an agent could have changed meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::names::candidates;
use crate::error::UploadError;

/// Names tried before giving up.
const MAX_CANDIDATES: usize = 10_000;

pub(super) struct Folder {
    handle: OwnedFd,
}

impl Folder {
    /// Opens the folder, making it when missing. A link in its place is refused.
    pub(super) fn open(path: &Path) -> Result<Self, UploadError> {
        let failed = |source: io::Error| UploadError::Write { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                UploadError::BadFolder { path: path.to_owned() }
            }
            _ => failed(error),
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(handle) => Ok(Self { handle }),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(UploadError::BadFolder { path: path.to_owned() }),
            Err(error) => Err(failed(error.into())),
        }
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { folder: self, parts: Vec::new(), published: Vec::new(), replaced: Vec::new(), kept: false }
    }

    /// A regular file with one name, opened without following a link.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&handle)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(io::Error::other("not a plain file"));
        }
        Ok(File::from(handle))
    }

    /// Removes a name that is no directory's; whether it was there.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::ISDIR | Errno::NAMETOOLONG) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether `name` is a plain file with exactly these bytes.
    fn holds(&self, name: &str, size: u64, digest: &Digest) -> bool {
        let Ok(mut file) = self.open_file(name) else { return false };
        if !file.metadata().is_ok_and(|metadata| metadata.len() == size) {
            return false;
        }
        copy(&mut file, &mut io::sink(), size).is_ok_and(|(found, length)| length == size && found == *digest)
    }
}

pub(super) type Digest = [u8; 32];

/// What one request writes; removed again unless kept.
pub(super) struct Batch<'a> {
    folder: &'a Folder,
    parts: Vec<String>,
    published: Vec<String>,
    /// Names of files that were there before: what they were cannot be brought back, so the new ones stay.
    replaced: Vec<String>,
    kept: bool,
}

impl Batch<'_> {
    /// Copies into a new part file, stopping one byte past `limit`.
    pub(super) fn write_part(&mut self, source: &mut dyn Read, limit: u64) -> io::Result<(String, Digest, u64)> {
        let name = format!(".upload-{}.part", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.folder.handle, &name, flags, Mode::from_raw_mode(0o600))?;
        self.parts.push(name.clone());
        let mut file = File::from(handle);
        let (digest, size) = copy(source, &mut file, limit)?;
        file.sync_all()?;
        Ok((name, digest, size))
    }

    /// Gives a part its final name: the first of `wanted`, `wanted_1`… that is free, or that already holds the same
    /// bytes. Nothing is ever replaced.
    pub(super) fn publish(
        &mut self,
        part: &str,
        wanted: &str,
        (size, digest): (u64, Digest),
        owner: Option<(u32, u32)>,
    ) -> io::Result<String> {
        self.hand_over(part, owner)?;
        for name in candidates(wanted).take(MAX_CANDIDATES) {
            // A name this request just published is another file of the user, whatever its bytes.
            let own = self.published.contains(&name);
            if !own && self.folder.holds(&name, size, &digest) {
                rustix::fs::unlinkat(&self.folder.handle, part, AtFlags::empty())?;
                self.parts.retain(|other| other != part);
                return Ok(name);
            }
            match self.rename(part, &name) {
                Ok(()) => {
                    self.parts.retain(|other| other != part);
                    self.published.push(name.clone());
                    return Ok(name);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("no free name for `{wanted}`")))
    }

    /// Gives a part its final name, in place of a plain file that has it. `None` when something else has it: the part is
    /// removed with the batch. A name that this request has given already is counted on.
    pub(super) fn replace(
        &mut self,
        part: &str,
        wanted: &str,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Option<String>> {
        self.hand_over(part, owner)?;
        let folder = &self.folder.handle;
        let free = candidates(wanted)
            .take(MAX_CANDIDATES)
            .find(|name| !self.published.contains(name) && !self.replaced.contains(name));
        let Some(name) = free else { return Err(io::Error::other(format!("no free name for `{wanted}`"))) };
        match self.rename(part, &name) {
            Ok(()) => self.published.push(name.clone()),
            Err(Errno::EXIST) => {
                let is_plain = self.folder.open_file(&name).is_ok();
                // Whatever takes its place meanwhile is replaced itself, not what it leads to.
                match is_plain.then(|| rustix::fs::renameat(folder, part, folder, &name)) {
                    Some(Ok(())) => self.replaced.push(name.clone()),
                    None | Some(Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST)) => return Ok(None),
                    Some(Err(error)) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.parts.retain(|other| other != part);
        Ok(Some(name))
    }

    /// Makes a part readable to a sandbox that runs as another user.
    fn hand_over(&self, part: &str, owner: Option<(u32, u32)>) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.folder.handle, part, flags, Mode::empty())?;
        rustix::fs::fchmod(&handle, Mode::from_raw_mode(0o644))?;
        if let Some((user, group)) = owner {
            rustix::fs::fchown(&handle, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        Ok(())
    }

    /// Renames only when nothing has the new name, also on file systems without that rename.
    fn rename(&self, part: &str, name: &str) -> Result<(), Errno> {
        let folder = &self.folder.handle;
        match rustix::fs::renameat_with(folder, part, folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(folder, part, folder, name, AtFlags::empty())?;
                rustix::fs::unlinkat(folder, part, AtFlags::empty())
            }
            result => result,
        }
    }

    /// Everything succeeded: the files stay.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let published = if self.kept { &[][..] } else { &self.published };
        for name in self.parts.iter().chain(published) {
            let _ = rustix::fs::unlinkat(&self.folder.handle, name, AtFlags::empty());
        }
    }
}

/// Copies at most `limit + 1` bytes; the digest tells equal files.
fn copy(source: &mut dyn Read, target: &mut dyn Write, limit: u64) -> io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut left = limit.saturating_add(1);
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0_u64;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = match source.read(&mut buffer[..want]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        target.write_all(&buffer[..read])?;
        size += read as u64;
        left -= read as u64;
    }
    Ok((*hasher.finalize().as_bytes(), size))
}
