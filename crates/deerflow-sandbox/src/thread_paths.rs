//! Where a thread's files live on the host.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::{SandboxError, copy_tree, handle, remove};

/// What a thread's folder has for the agent; what else is there is about the thread itself.
const AGENT_FOLDERS: [&str; 3] = ["user-data", "acp-workspace", "private"];

/// The host directories of one thread: `{base}/users/{user}/threads/{thread}/…`. `user-data` and `acp-workspace` are shown to
/// the agent; `private/home` and `private/tmp` are its `HOME` and `/tmp`, persistent and outside the artifact tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPaths {
    base: PathBuf,
    user: String,
    thread: String,
}

impl ThreadPaths {
    /// The paths of a thread beneath `base` (the data directory).
    ///
    /// # Errors
    /// [`SandboxError::InvalidId`] unless both ids are 1 to 64 of `[A-Za-z0-9_-]`.
    pub fn new(base: &Path, user_id: &str, thread_id: &str) -> Result<Self, SandboxError> {
        for (what, id) in [("user", user_id), ("thread", thread_id)] {
            let valid =
                (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            if !valid {
                return Err(SandboxError::InvalidId { what });
            }
        }
        Ok(Self { base: base.to_owned(), user: user_id.to_owned(), thread: thread_id.to_owned() })
    }

    /// The data directory.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The thread's name among those of all users: `<user>:<thread>`.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.user, self.thread)
    }

    /// Directory of the user.
    #[must_use]
    pub fn user_dir(&self) -> PathBuf {
        self.base.join("users").join(&self.user)
    }

    /// Directory of the thread; deleting it deletes the thread's files.
    #[must_use]
    pub fn thread_dir(&self) -> PathBuf {
        self.user_dir().join("threads").join(&self.thread)
    }

    /// `/mnt/user-data`.
    #[must_use]
    pub fn user_data(&self) -> PathBuf {
        self.thread_dir().join("user-data")
    }

    /// `/mnt/user-data/workspace`.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.user_data().join("workspace")
    }

    /// `/mnt/user-data/uploads`.
    #[must_use]
    pub fn uploads(&self) -> PathBuf {
        self.user_data().join("uploads")
    }

    /// `/mnt/user-data/outputs`.
    #[must_use]
    pub fn outputs(&self) -> PathBuf {
        self.user_data().join("outputs")
    }

    /// `/mnt/acp-workspace`.
    #[must_use]
    pub fn acp_workspace(&self) -> PathBuf {
        self.thread_dir().join("acp-workspace")
    }

    /// `HOME` of commands.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.thread_dir().join("private").join("home")
    }

    /// `/tmp` of commands.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.thread_dir().join("private").join("tmp")
    }

    /// Deletes the thread's directory with all that is in it, however deep and whatever its modes; links are deleted, not
    /// followed. Blocks as long as the file system takes. Nothing there is fine.
    ///
    /// # Errors
    /// [`SandboxError::Io`] when something cannot be deleted, or is made anew again and again meanwhile. What is left can be
    /// deleted by another call.
    pub fn remove_all(&self) -> Result<(), SandboxError> {
        let result = remove::tree(&self.user_dir().join("threads"), &self.thread);
        result.map_err(|errno| SandboxError::system("deleting the thread directory", &errno.into()))
    }

    /// Copies what the agent has here to another thread's folder, and counts the files. Links are copied, not followed; no
    /// folder here is fine. Blocks as long as the file system takes.
    ///
    /// # Errors
    /// What the file system says. What was copied until then stays.
    pub fn copy_to(&self, target: &Self) -> std::io::Result<u64> {
        if !self.thread_dir().exists() {
            return Ok(0);
        }
        target.ensure().map_err(std::io::Error::other)?;
        let copied = AGENT_FOLDERS.iter().map(|name| copy_tree::copy(&self.thread_dir(), &target.thread_dir(), name));
        copied.sum()
    }

    /// Makes what is missing, mode 0700, owned by this process.
    ///
    /// # Errors
    /// [`SandboxError::Io`] and the like when a directory cannot be made.
    pub fn ensure(&self) -> Result<(), SandboxError> {
        self.ensure_owned(None, false)
    }

    /// The same; with `owner` (when the server is root) the directories that commands write to belong to that user and
    /// `user-data` itself to the server, so that a command cannot replace its entries.
    ///
    /// With `reach`, that user can also get there by name: others can then pass through the directories above (not read
    /// them), up to the data directory.
    pub(crate) fn ensure_owned(&self, owner: Option<u32>, reach: bool) -> Result<(), SandboxError> {
        use std::os::unix::fs::DirBuilderExt;
        let fail = |error: &std::io::Error| SandboxError::system("making the thread directory", error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.thread_dir()).map_err(|e| fail(&e))?;
        let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let thread = rustix::fs::open(self.thread_dir(), open, Mode::empty()).map_err(|e| fail(&e.into()))?;
        let reach = reach && owner.is_some();
        if reach {
            for dir in self.thread_dir().ancestors().take_while(|dir| dir.starts_with(&self.base)) {
                pass_through(dir).map_err(|errno| fail(&errno.into()))?;
            }
        }
        let make = |parent: &OwnedFd, name: &str, mode: u32, owner: Option<u32>| {
            ensure_dir(parent, name, mode, owner).map_err(|errno| fail(&errno.into()))
        };
        // Root keeps `user-data` for itself but lets the sandbox user through it; the thread directory above is 0700.
        let user_data = make(&thread, "user-data", if owner.is_some() { 0o755 } else { 0o700 }, None)?;
        for name in ["workspace", "uploads", "outputs"] {
            make(&user_data, name, 0o700, owner)?;
        }
        make(&thread, "acp-workspace", 0o700, owner)?;
        let private = make(&thread, "private", if reach { 0o711 } else { 0o700 }, None)?;
        make(&private, "home", 0o700, owner)?;
        make(&private, "tmp", 0o700, owner)?;
        Ok(())
    }
}

/// Lets others through a directory.
pub(crate) fn pass_through(dir: &Path) -> Result<(), Errno> {
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, open, Mode::empty())?;
    let mode = rustix::fs::fstat(&dir)?.st_mode & 0o7777;
    if mode & 0o001 == 0 { handle::set_mode(&dir, mode | 0o001) } else { Ok(()) }
}

/// Opens or makes `name` without following a link: a command may have put one there.
fn ensure_dir(parent: &OwnedFd, name: &str, mode: u32, owner: Option<u32>) -> Result<OwnedFd, Errno> {
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::openat(parent, name, open, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            rustix::fs::openat(parent, name, open, Mode::empty())?
        }
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&dir)?;
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Err(Errno::NOTDIR);
    }
    // A directory for others to pass through: neither the umask nor an earlier server decides. One of the server's own: an
    // earlier server that ran as somebody else may have left it a mode that would lock the sandbox user out.
    let opened_for_others = mode & 0o077 != 0 && stat.st_mode & mode != mode;
    if opened_for_others || (owner.is_none() && stat.st_mode & 0o777 != mode) {
        handle::set_mode(&dir, mode)?;
    }
    if let Some(uid) = owner
        && stat.st_uid != uid
    {
        rustix::fs::chownat(dir.as_fd(), "", Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)), AtFlags::EMPTY_PATH)?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_the_tree_are_refused() {
        for id in ["", ".", "..", "a/b", "a b", "é", "a\0", &"x".repeat(65)] {
            assert!(ThreadPaths::new(Path::new("/b"), id, "t").is_err(), "{id:?}");
            assert!(ThreadPaths::new(Path::new("/b"), "u", id).is_err(), "{id:?}");
        }
        let paths = ThreadPaths::new(Path::new("/b"), "u-1", "T_2").unwrap();
        assert_eq!(paths.outputs(), Path::new("/b/users/u-1/threads/T_2/user-data/outputs"));
    }

    #[test]
    fn a_link_swapped_in_does_not_get_the_mode_of_the_directory() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("d")).unwrap();
        std::fs::create_dir(base.path().join("outside")).unwrap();
        std::fs::set_permissions(base.path().join("outside"), PermissionsExt::from_mode(0o711)).unwrap();
        let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(base.path().join("d"), open, Mode::empty()).unwrap();
        std::fs::rename(base.path().join("d"), base.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("outside", base.path().join("d")).unwrap();
        handle::set_mode(&dir, 0o500).unwrap();
        let mode = |name: &str| std::fs::metadata(base.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("outside"), mode("moved")), (0o711, 0o500));
    }

    #[test]
    fn a_link_in_place_of_the_workspace_is_replaced_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let paths = ThreadPaths::new(base.path(), "u", "t").unwrap();
        paths.ensure().unwrap();
        std::fs::remove_dir(paths.workspace()).unwrap();
        std::os::unix::fs::symlink(outside.path(), paths.workspace()).unwrap();
        paths.ensure().unwrap();
        assert!(std::fs::symlink_metadata(paths.workspace()).unwrap().is_dir());
        assert!(outside.path().exists());
    }
}
