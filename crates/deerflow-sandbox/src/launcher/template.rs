//! The root that all jobs of a launcher share, built once: a minimal, read-only system.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use super::sys::{Attributes, mount_setattr};
use crate::protocol::{Failure, INSIDE_HOME, Setup};
use crate::system;

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const MAX_COPIED: u64 = 4 << 20;

/// Builds the template somewhere that hides no directory of `setup.keep_visible`; returns where.
pub(super) fn build(setup: &Setup) -> Result<PathBuf, Failure> {
    let root = place(setup)?;
    // Mounts of the host that go away also go away here; nothing done here reaches the host.
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::REC | rustix::mount::MountPropagationFlags::DOWNSTREAM,
    )
    .map_err(|errno| Failure::new("detaching mounts from the host", errno))?;
    tmpfs(&root, c"mode=0755,size=8m,nr_inodes=4096", MountFlags::NOSUID)?;
    for name in system::TOP {
        system_dir(&root, name)?;
    }
    etc(&root)?;
    dev(&root)?;
    for dir in ["proc", "tmp", "run", "mnt", "var", &INSIDE_HOME[1..]] {
        make_dir(&root.join(dir))?;
    }
    symlink("/tmp", root.join("var/tmp")).map_err(|error| Failure::new("building the root", error))?;
    for target in &setup.targets {
        make_dir(&inside(&root, target)?)?;
    }
    seal(&root)?;
    Ok(root)
}

/// A directory to mount the template on.
fn place(setup: &Setup) -> Result<PathBuf, Failure> {
    let hides = |dir: &Path| setup.keep_visible.iter().any(|kept| kept.starts_with(dir));
    ["/mnt", "/media", "/srv", "/opt", "/run", "/var", "/boot", "/home", "/tmp"]
        .into_iter()
        .map(PathBuf::from)
        .find(|dir| !hides(dir) && fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()))
        .ok_or_else(|| Failure::new("building the root", "no directory to mount it on"))
}

/// The place of an absolute sandbox path beneath `root`.
pub(super) fn inside(root: &Path, target: &str) -> Result<PathBuf, Failure> {
    let relative = target.trim_start_matches('/');
    let clean =
        !relative.is_empty() && Path::new(relative).components().all(|part| matches!(part, Component::Normal(_)));
    if clean {
        Ok(root.join(relative))
    } else {
        Err(Failure::new("building the root", format!("bad mount target {target}")))
    }
}

/// Mounts a copy of a host directory or file (and of what is mounted beneath it).
fn bind(source: &Path, target: &Path, attributes: Option<Attributes>) -> Result<(), Failure> {
    if bind_if_there(source, target, attributes)? {
        return Ok(());
    }
    Err(Failure::new(format!("mounting {}", target.display()), "it is not there"))
}

/// The same; false if there is nothing to mount.
pub(super) fn bind_if_there(source: &Path, target: &Path, attributes: Option<Attributes>) -> Result<bool, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new(format!("mounting {}", target.display()), error);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = match open_tree(CWD, source, flags) {
        Ok(tree) => tree,
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(fail(&errno)),
    };
    if let Some(attributes) = attributes {
        mount_setattr(tree.as_fd(), attributes, true).map_err(|error| fail(&error))?;
    }
    move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(|errno| fail(&errno))?;
    Ok(true)
}

/// Mounts a new tmpfs.
pub(super) fn tmpfs(target: &Path, options: &std::ffi::CStr, flags: MountFlags) -> Result<(), Failure> {
    mount("tmpfs", target, "tmpfs", flags, Some(options))
        .map_err(|errno| Failure::new(format!("mounting a tmpfs on {}", target.display()), errno))
}

fn system_dir(root: &Path, name: &str) -> Result<(), Failure> {
    let host = Path::new("/").join(name);
    let Ok(meta) = fs::symlink_metadata(&host) else { return Ok(()) };
    let target = root.join(name);
    if meta.is_symlink() {
        let link = fs::read_link(&host).and_then(|to| symlink(to, &target));
        return link.map_err(|error| Failure::new("building the root", error));
    }
    make_dir(&target)?;
    bind(&host, &target, Some(Attributes::READ_ONLY))
}

fn etc(root: &Path) -> Result<(), Failure> {
    let etc = root.join("etc");
    make_dir(&etc)?;
    let fail = |error: std::io::Error| Failure::new("building /etc", error);
    for (name, text) in system::etc_generated() {
        fs::write(etc.join(name), text).map_err(fail)?;
    }
    for name in system::ETC_DIRS {
        let host = Path::new("/etc").join(name);
        if fs::metadata(&host).is_ok_and(|meta| meta.is_dir()) {
            make_dir(&etc.join(name))?;
            bind(&host, &etc.join(name), Some(Attributes::READ_ONLY))?;
        }
    }
    for name in system::ETC_FILES {
        let host = Path::new("/etc").join(name);
        // Copied through the link, if it is one: what is not readable for this user is left out.
        if fs::metadata(&host).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_COPIED)
            && let Ok(bytes) = fs::read(&host)
        {
            let target = etc.join(name);
            if let Some(parent) = target.parent() {
                make_dir(parent)?;
            }
            fs::write(target, bytes).map_err(fail)?;
        }
    }
    symlink("/proc/self/mounts", etc.join("mtab")).map_err(fail)
}

fn dev(root: &Path) -> Result<(), Failure> {
    let dev = root.join("dev");
    let fail = |error: std::io::Error| Failure::new("building /dev", error);
    make_dir(&dev)?;
    for name in DEVICES {
        let host = Path::new("/dev").join(name);
        if fs::symlink_metadata(&host).is_err() {
            continue;
        }
        fs::write(dev.join(name), "").map_err(fail)?;
        bind(&host, &dev.join(name), None)?;
    }
    make_dir(&dev.join("pts"))?;
    make_dir(&dev.join("shm"))?;
    for (name, to) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(to, dev.join(name)).map_err(fail)?;
    }
    Ok(())
}

/// Makes the template itself read-only (mounts on it keep their own mode).
fn seal(root: &Path) -> Result<(), Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("sealing the root", error);
    let flags = OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let fd = open_tree(CWD, root, flags).map_err(|errno| fail(&errno))?;
    mount_setattr(fd.as_fd(), Attributes::READ_ONLY, false).map_err(|error| fail(&error))
}

fn make_dir(path: &Path) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::new("building the root", error);
    fs::create_dir_all(path).map_err(fail)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(fail)
}
