//! Copies what commands have made: nothing of it can be trusted to stay what it is while it is read.
//!
//! Every directory is opened by name beneath the one before, and links are copied, never followed, so that no file from
//! outside the tree is read. Files are new ones, not further names of the old. What is neither file, directory nor link is
//! left out.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Directories in directories at most: each takes two descriptors.
const DEPTH: usize = 128;

/// Copies `name` beneath `from` to beneath `to`, and counts the files. Nothing there is fine.
///
/// # Errors
/// What the file system says; `ENAMETOOLONG` for a tree that is too deep. What was copied stays.
pub(crate) fn copy(from: &Path, to: &Path, name: &str) -> io::Result<u64> {
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (from, to) = (rustix::fs::open(from, open, Mode::empty())?, rustix::fs::open(to, open, Mode::empty())?);
    let name = std::ffi::CString::new(name)?;
    entry(&from, &to, &name, DEPTH)
}

fn entry(from: &OwnedFd, to: &OwnedFd, name: &CStr, depth: usize) -> io::Result<u64> {
    let stat = match rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // Gone since it was listed.
        Err(Errno::NOENT) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    match FileType::from_raw_mode(stat.st_mode as RawMode) {
        FileType::Directory => directory(from, to, name, depth),
        FileType::RegularFile => file(from, to, name),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(target.as_c_str(), to, name)?;
            give_to(to, name, &stat)?;
            Ok(0)
        }
        _ => Ok(0),
    }
}

fn directory(from: &OwnedFd, to: &OwnedFd, name: &CStr, depth: usize) -> io::Result<u64> {
    let Some(depth) = depth.checked_sub(1) else { return Err(Errno::NAMETOOLONG.into()) };
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from, name, open, Mode::empty())?;
    match rustix::fs::mkdirat(to, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let target = rustix::fs::openat(to, name, open, Mode::empty())?;
    let mut files = 0;
    for child in Dir::read_from(&source)? {
        let child = child?;
        let child = child.file_name();
        if child != c"." && child != c".." {
            files += entry(&source, &target, child, depth)?;
        }
    }
    like(&target, &rustix::fs::fstat(&source)?)?;
    Ok(files)
}

fn file(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<u64> {
    // What took the file's place meanwhile must not be followed, and not be waited for.
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from, name, read, Mode::empty())?;
    let stat = rustix::fs::fstat(&source)?;
    if !FileType::from_raw_mode(stat.st_mode as RawMode).is_file() {
        return Ok(0);
    }
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(to, name, write, Mode::RUSR | Mode::WUSR)?;
    let mut target = File::from(target);
    io::copy(&mut File::from(source), &mut target)?;
    like(target.as_fd(), &stat)?;
    Ok(1)
}

/// Gives owner and mode of the original, and no more rights than read, write and execute.
fn like(target: impl AsFd, stat: &Stat) -> io::Result<()> {
    let now = rustix::fs::fstat(&target)?;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        let (uid, gid) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        rustix::fs::fchown(&target, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode as RawMode & 0o777))?;
    Ok(())
}

fn give_to(dir: &OwnedFd, link: &CStr, stat: &Stat) -> io::Result<()> {
    let now = rustix::fs::statat(dir, link, AtFlags::SYMLINK_NOFOLLOW)?;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        let (uid, gid) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        rustix::fs::chownat(dir, link, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn files_are_new_and_links_stay_links() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = from.path().join("d/sub");
        std::fs::create_dir_all(&source).unwrap();
        std::fs::write(source.join("run.sh"), "echo").unwrap();
        std::fs::set_permissions(source.join("run.sh"), PermissionsExt::from_mode(0o4750)).unwrap();
        std::fs::write(from.path().join("secret"), "s").unwrap();
        symlink(from.path().join("secret"), from.path().join("d/link")).unwrap();
        nix::unistd::mkfifo(&source.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(copy(from.path(), to.path(), "d").unwrap(), 1);
        let made = to.path().join("d/sub/run.sh");
        assert_eq!(std::fs::read_to_string(&made).unwrap(), "echo");
        let (old, new) = (source.join("run.sh").metadata().unwrap(), made.metadata().unwrap());
        assert_eq!((new.mode() & 0o7777, new.nlink()), (0o750, 1));
        assert_ne!(old.ino(), new.ino());
        assert!(std::fs::symlink_metadata(to.path().join("d/link")).unwrap().is_symlink());
        assert!(!to.path().join("d/sub/pipe").exists());
        assert_eq!(copy(from.path(), to.path(), "absent").unwrap(), 0);
    }

    #[test]
    fn a_tree_without_end_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(from.path().join("d/".repeat(DEPTH + 1))).unwrap();
        assert_eq!(
            copy(from.path(), to.path(), "d").unwrap_err().raw_os_error(),
            Some(Errno::NAMETOOLONG.raw_os_error())
        );
    }
}
