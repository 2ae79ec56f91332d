//! Writing: a new file beside the old one, then a rename. A reader never sees half a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::read::{is_dir, sha256_hex};
use super::resolve::{Resolved, check_regular};
use super::{MAX_TEXT_BYTES, ThreadFiles};
use crate::text::{self, TextEncoding};
use crate::{SandboxError, VirtualPath};

/// What must be true of a file before it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// Its bytes have this SHA-256 (lower-case hex): it is the version that was read.
    Sha256(String),
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Bytes of the file now.
    pub size: u64,
    /// SHA-256 of the file now, lower-case hex.
    pub sha256: String,
    /// It was not there before.
    pub created: bool,
}

const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl ThreadFiles {
    /// Replaces or makes a file; missing parents are made. An existing file keeps its mode.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::Changed`]; [`SandboxError::DiskFull`].
    pub fn write_bytes(&self, path: &VirtualPath, bytes: &[u8], expect: &Expect) -> Result<WriteOutcome, SandboxError> {
        let found = self.resolve_for_write(path)?;
        let lock = self.lock_of(&found.path);
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_expected(path, &found, expect)?;
        let size = self.replace_file(path, &found, &mut { bytes }, bytes.len() as u64)?;
        Ok(WriteOutcome { size, sha256: sha256_hex(bytes), created: found.stat.is_none() })
    }

    /// The same from a stream of at most `max` bytes, for uploads. Returns the bytes written.
    ///
    /// # Errors
    /// As [`ThreadFiles::write_bytes`]; [`SandboxError::TooLarge`], and then nothing is changed.
    pub fn write_stream(&self, path: &VirtualPath, source: &mut dyn Read, max: u64) -> Result<u64, SandboxError> {
        let found = self.resolve_for_write(path)?;
        let lock = self.lock_of(&found.path);
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut limited = LimitedReader { source, left: max, exceeded: false };
        let result = self.replace_file(path, &found, &mut limited, 0);
        if limited.exceeded {
            return Err(SandboxError::TooLarge { path: path.to_string(), size: max.saturating_add(1), limit: max });
        }
        result
    }

    /// Adds text at the end, in the encoding that the file's byte order mark names.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::DiskFull`].
    pub fn append(&self, path: &VirtualPath, text: &str) -> Result<WriteOutcome, SandboxError> {
        let found = self.resolve_for_write(path)?;
        let lock = self.lock_of(&found.path);
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = match found.stat {
            Some(_) => self.read_resolved(path, &found)?,
            None => Vec::new(),
        };
        let encoding = match bytes.get(..2) {
            Some(b"\xFF\xFE") => TextEncoding::Utf16Le,
            Some(b"\xFE\xFF") => TextEncoding::Utf16Be,
            _ => TextEncoding::Utf8,
        };
        // UTF-8 and UTF-16 have every character.
        let tail = text::encode(text, encoding, false).unwrap_or_default();
        self.check_space(path, &found, tail.len() as u64)?;
        let fail = |error: &std::io::Error| SandboxError::io("writing", path.as_str(), error);
        match &found.name {
            Some(name) if found.stat.is_some() => {
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fd =
                    rustix::fs::openat(&found.dir, name, flags, Mode::empty()).map_err(|errno| fail(&errno.into()))?;
                check_regular(path.as_str(), &rustix::fs::fstat(&fd).map_err(|errno| fail(&errno.into()))?)?;
                File::from(fd).write_all(&tail).map_err(|error| fail(&error))?;
            }
            _ => {
                self.replace_file(path, &found, &mut { tail.as_slice() }, tail.len() as u64)?;
            }
        }
        bytes.extend_from_slice(&tail);
        Ok(WriteOutcome { size: bytes.len() as u64, sha256: sha256_hex(&bytes), created: found.stat.is_none() })
    }

    /// Resolves a path that is to be written: tools may write there, and a regular file or nothing is there.
    pub(super) fn resolve_for_write(&self, path: &VirtualPath) -> Result<Resolved<'_>, SandboxError> {
        let text = path.as_str();
        if let Some((mount, _)) = self.mounts.lookup(text) {
            // Before parents are made or links are followed: say what is wrong with the path as asked for.
            match self.mounts.check_writable(mount, text) {
                Err(_) if self.stat(path).is_ok_and(|stat| stat.kind == super::FileKind::Directory) => {
                    return Err(SandboxError::IsDirectory { path: text.to_owned() });
                }
                other => other?,
            }
        } else if self.is_virtual_parent(text) || crate::path::strip_prefix(text, crate::path::SKILLS).is_some() {
            return Err(SandboxError::ReadOnly { path: text.to_owned() });
        }
        let found = self.resolve(text, true)?;
        match &found.stat {
            Some(stat) if is_dir(stat.st_mode) => return Err(SandboxError::IsDirectory { path: text.to_owned() }),
            Some(stat) => check_regular(text, stat)?,
            None => {}
        }
        self.mounts.check_writable(found.mount, &found.path)?;
        Ok(found)
    }

    pub(super) fn check_expected(
        &self,
        path: &VirtualPath,
        found: &Resolved<'_>,
        expect: &Expect,
    ) -> Result<(), SandboxError> {
        let holds = match expect {
            Expect::Any => true,
            Expect::Absent => found.stat.is_none(),
            Expect::Sha256(_) if found.stat.is_none() => false,
            Expect::Sha256(digest) => &sha256_hex(&self.read_resolved(path, found)?) == digest,
        };
        if holds { Ok(()) } else { Err(SandboxError::Changed { path: path.to_string() }) }
    }

    pub(super) fn read_resolved(&self, path: &VirtualPath, found: &Resolved<'_>) -> Result<Vec<u8>, SandboxError> {
        let fail = |errno| SandboxError::at("reading", path.as_str(), errno);
        let name = found.name.as_deref().ok_or_else(|| fail(Errno::ISDIR))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&found.dir, name, flags, Mode::empty()).map_err(fail)?;
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        check_regular(path.as_str(), &stat)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > MAX_TEXT_BYTES {
            return Err(SandboxError::TooLarge { path: path.to_string(), size, limit: MAX_TEXT_BYTES });
        }
        let mut bytes = Vec::new();
        File::from(fd)
            .take(MAX_TEXT_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| SandboxError::io("reading", path.as_str(), &error))?;
        Ok(bytes)
    }

    /// Writes a new file and renames it over the name that was resolved.
    pub(super) fn replace_file(
        &self,
        path: &VirtualPath,
        found: &Resolved<'_>,
        source: &mut dyn Read,
        expected_size: u64,
    ) -> Result<u64, SandboxError> {
        let fail = |errno| SandboxError::at("writing", path.as_str(), errno);
        let Some(name) = found.name.as_deref() else {
            return Err(fail(Errno::ISDIR));
        };
        self.check_space(path, found, expected_size)?;
        let temporary = temporary_name();
        let mode = found.stat.as_ref().map_or(0o600, |stat| stat.st_mode & 0o7777);
        let fd = rustix::fs::openat(&found.dir, &temporary, NEW_FILE, Mode::RUSR | Mode::WUSR).map_err(fail)?;
        let result = (|| {
            let mut file = File::from(fd);
            let size = copy(source, &mut file, |_| self.check_space(path, found, 0)).map_err(|error| match error {
                CopyError::Io(error) => SandboxError::io("writing", path.as_str(), &error),
                CopyError::Stop(error) => error,
            })?;
            if let Some(uid) = self.owner {
                let (user, group) = match &found.stat {
                    Some(stat) => (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)),
                    None => (Uid::from_raw(uid), Gid::from_raw(uid)),
                };
                rustix::fs::fchown(&file, Some(user), Some(group)).map_err(fail)?;
            }
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(fail)?;
            rustix::fs::renameat(&found.dir, &temporary, &found.dir, name).map_err(fail)?;
            Ok(size)
        })();
        if result.is_err() {
            let _ = rustix::fs::unlinkat(&found.dir, OsStr::new(&temporary), AtFlags::empty());
        }
        result
    }

    /// Refuses to eat into the reserve of free space.
    fn check_space(&self, path: &VirtualPath, found: &Resolved<'_>, size: u64) -> Result<(), SandboxError> {
        if self.min_free_bytes == 0 {
            return Ok(());
        }
        let free = rustix::fs::fstatvfs(found.dir.as_fd()).map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
        if free.is_ok_and(|free| free < self.min_free_bytes.saturating_add(size)) {
            return Err(SandboxError::DiskFull { path: path.to_string() });
        }
        Ok(())
    }
}

enum CopyError {
    Io(std::io::Error),
    Stop(SandboxError),
}

/// Copies all of `source`; `check` is asked every 16 MiB.
fn copy(
    source: &mut dyn Read,
    file: &mut File,
    check: impl Fn(u64) -> Result<(), SandboxError>,
) -> Result<u64, CopyError> {
    const CHECK_EVERY: u64 = 16 << 20;
    let mut buffer = vec![0; 64 * 1024];
    let (mut total, mut next_check) = (0u64, CHECK_EVERY);
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Io(error)),
        };
        file.write_all(&buffer[..count]).map_err(CopyError::Io)?;
        total += count as u64;
        if total >= next_check {
            next_check = total + CHECK_EVERY;
            check(total).map_err(CopyError::Stop)?;
        }
    }
}

struct LimitedReader<'a> {
    source: &'a mut dyn Read,
    left: u64,
    exceeded: bool,
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.exceeded = true;
                Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge))
            }
        }
    }
}

/// A name that the listing ignores (`*.tmp`) and that nobody else uses: `O_EXCL` settles the rest.
fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    format!(".deerflow-{}-{}-{nanos}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
