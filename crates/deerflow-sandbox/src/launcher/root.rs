//! The root of a sandbox: the template, the thread's directories, a fresh `/proc`, and nothing of the host.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount};

use super::sys::{Attributes, mount_setattr};
use super::template::{bind_if_there, inside, tmpfs};
use crate::protocol::{Failure, JobMount};

/// Parts of `/proc` that act on the machine: read-only.
const PROC_READ_ONLY: [&str; 5] = ["sys", "sysrq-trigger", "irq", "bus", "fs"];
/// Parts of `/proc` that tell about the machine: empty.
const PROC_MASKED: [&str; 3] = ["kcore", "keys", "timer_list"];

/// Builds a root on the template and enters it, as far as that does not depend on a job; the host's files are gone
/// afterwards.
pub(super) fn enter(template: &Path) -> Result<(), Failure> {
    proc(&template.join("proc"))?;
    let dev = template.join("dev");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", dev.join("pts"), "devpts", flags, Some(c"newinstance,ptmxmode=0666,mode=0620"))
        .map_err(|errno| Failure::new("mounting /dev/pts", errno))?;
    tmpfs(&dev.join("shm"), c"mode=1777,size=64m", MountFlags::NOSUID | MountFlags::NODEV)?;
    pivot(template)
}

/// A detached copy of a host directory, with what is mounted beneath it.
pub(super) fn detached(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    // The path is the host's: the one who reads the failure must not see it.
    open_tree(CWD, path, flags).map_err(|errno| Failure::new("opening a directory to mount", errno))
}

/// Shows a job's directories in the root that was entered.
pub(super) fn attach(mounts: &[JobMount], trees: &[OwnedFd]) -> Result<(), Failure> {
    if mounts.len() != trees.len() {
        return Err(Failure::new("mounting", "descriptors missing"));
    }
    for (item, tree) in mounts.iter().zip(trees) {
        let fail = |error: &dyn std::fmt::Display| Failure::new(format!("mounting {}", item.target), error);
        let target = inside(Path::new("/"), &item.target)?;
        let attributes = if item.read_only { Attributes::READ_ONLY } else { Attributes::NOSUID_NODEV };
        mount_setattr(tree.as_fd(), attributes, true).map_err(|error| fail(&error))?;
        move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(|errno| fail(&errno))?;
    }
    Ok(())
}

fn proc(target: &Path) -> Result<(), Failure> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", target, "proc", flags, None::<&std::ffi::CStr>)
        .map_err(|errno| Failure::new("mounting /proc", errno))?;
    for name in PROC_READ_ONLY {
        let path = target.join(name);
        bind_if_there(&path, &path, Some(Attributes::READ_ONLY))?;
    }
    for name in PROC_MASKED {
        mask(&target.join(name))?;
    }
    Ok(())
}

/// Not every kernel has every part.
fn mask(path: &Path) -> Result<(), Failure> {
    match rustix::mount::mount_bind("/dev/null", path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(Failure::new(format!("masking {}", path.display()), errno)),
    }
}

fn pivot(root: &Path) -> Result<(), Failure> {
    let fail = |errno: rustix::io::Errno| Failure::new("entering the root", errno);
    rustix::process::chdir(root).map_err(fail)?;
    rustix::process::pivot_root(".", ".").map_err(fail)?;
    // The old root now lies on top of the new one.
    unmount(".", UnmountFlags::DETACH).map_err(fail)?;
    rustix::process::chdir("/").map_err(fail)
}
