//! Deleting a tree of any depth with a handful of descriptors.
//!
//! Directories are not walked down: what a directory has in it that is not empty is moved up to the top of the tree, and
//! dealt with there.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::handle::open_dir;

const OWN: u32 = 0o700;
/// How often a directory that is not empty after all is looked at again: somebody may be writing to it.
const ROUNDS: usize = 64;

/// Deletes `name` beneath the directory `parent`, whatever it is. Nothing there is fine.
pub(crate) fn tree(parent: &Path, name: &str) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match rustix::fs::open(parent, flags, Mode::empty()) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    for _ in 0..ROUNDS {
        if remove(&parent, &name)? {
            return Ok(());
        }
        match open_dir(&parent, &name, OWN) {
            Ok(top) => Removal { top, moved: 0, waiting: Vec::new() }.run()?,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes one name; false if it is a directory with something in it.
fn remove(dir: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(Errno::NOTDIR) => match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // A directory by now.
            Err(Errno::ISDIR) => Ok(false),
            Err(errno) => Err(errno),
        },
        Err(errno) => Err(errno),
    }
}

struct Removal {
    top: OwnedFd,
    /// Directories moved up so far: the number is the next one's name.
    moved: u64,
    /// Names in the top directory of what is not empty.
    waiting: Vec<CString>,
}

impl Removal {
    /// Empties the top directory.
    fn run(mut self) -> Result<(), Errno> {
        for entry in Dir::read_from(&self.top)? {
            let entry = entry?;
            let name = entry.file_name();
            if !is_dot(name) && !remove(&self.top, name)? {
                self.waiting.push(name.to_owned());
            }
        }
        while let Some(name) = self.waiting.pop() {
            self.empty(&name)?;
        }
        Ok(())
    }

    /// Deletes a directory of the top directory; what is not empty in it moves up.
    fn empty(&mut self, name: &CStr) -> Result<(), Errno> {
        for _ in 0..ROUNDS {
            if remove(&self.top, name)? {
                return Ok(());
            }
            let dir = match open_dir(&self.top, name, OWN) {
                Ok(dir) => dir,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(errno),
            };
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let name = entry.file_name();
                if !is_dot(name) && !remove(&dir, name)? {
                    self.move_up(&dir, name)?;
                }
            }
        }
        Err(Errno::NOTEMPTY)
    }

    fn move_up(&mut self, dir: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        loop {
            self.moved += 1;
            let up = CString::new(format!(".removed-{}", self.moved)).map_err(|_| Errno::INVAL)?;
            match rustix::fs::renameat(dir, name, &self.top, &up) {
                Ok(()) => {
                    self.waiting.push(up);
                    return Ok(());
                }
                Err(Errno::NOENT) => return Ok(()),
                // There is something of that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                // To be moved a directory must be writable itself; opening gives it that.
                Err(Errno::ACCESS) => {
                    drop(open_dir(dir, name, OWN)?);
                    rustix::fs::renameat(dir, name, &self.top, &up)?;
                    self.waiting.push(up);
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn is_dot(name: &CStr) -> bool {
    name == c"." || name == c".."
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn twenty_thousand_levels_are_deleted() {
        // In memory where possible: a disk takes its time for each directory.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(dir.path().join("t")).unwrap();
        let mut at = open_dir(rustix::fs::CWD, dir.path().join("t"), 0).unwrap();
        for level in 0..20_000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700)).unwrap();
            if level % 100 == 0 {
                rustix::fs::openat(&at, "f", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600)).unwrap();
            }
            at = open_dir(&at, "d", 0).unwrap();
        }
        drop(at);
        tree(dir.path(), "t").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        tree(dir.path(), "t").unwrap();
        tree(&dir.path().join("absent"), "t").unwrap();
    }

    #[test]
    fn links_are_deleted_and_not_followed_and_names_in_the_way_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "").unwrap();
        let top = dir.path().join("t");
        std::fs::create_dir_all(top.join("a/b/c/d")).unwrap();
        std::fs::create_dir_all(top.join("a/.removed-2/x")).unwrap();
        std::fs::create_dir_all(top.join(".removed-1/x/y")).unwrap();
        symlink(outside.path(), top.join("link")).unwrap();
        symlink(outside.path(), top.join("a/b/link")).unwrap();
        tree(dir.path(), "t").unwrap();
        assert!(!top.exists() && outside.path().join("kept").exists());
        symlink(outside.path(), &top).unwrap();
        tree(dir.path(), "t").unwrap();
        assert!(std::fs::symlink_metadata(&top).is_err() && outside.path().join("kept").exists());
    }

    #[test]
    fn directories_without_permissions_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o000, 0o300, 0o400, 0o500] {
            let closed = dir.path().join("t/a/closed");
            std::fs::create_dir_all(closed.join("b/c")).unwrap();
            std::fs::set_permissions(closed.join("b"), PermissionsExt::from_mode(mode)).unwrap();
            std::fs::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
            tree(dir.path(), "t").unwrap();
            assert!(!dir.path().join("t").exists(), "{mode:o}");
        }
    }
}
