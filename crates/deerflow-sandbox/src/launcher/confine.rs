//! What a process gives up: user namespace, capabilities, resources, and landlock as a second wall.

use std::fs;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::protocol::{Failure, INSIDE_ID, JobMount, Limits};
use crate::system;

/// Becomes the dedicated user for good, without groups.
pub(super) fn drop_to(uid: u32) -> Result<(), Failure> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    if uid == 0 {
        return Err(Failure::new("dropping root", "the sandbox user must not be root"));
    }
    let fail = |errno| Failure::new("dropping root", errno);
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[]).map_err(fail)?;
    setresgid(group, group, group).map_err(fail)?;
    setresuid(user, user, user).map_err(fail)
}

/// Enters a new user namespace (and more) in which this user is `INSIDE_ID`. Never maps host root: the caller is not root.
pub(super) fn enter_user_namespace(further: CloneFlags) -> Result<(), Failure> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if uid.is_root() {
        return Err(Failure::new("creating a user namespace", "refused as root"));
    }
    // After setuid the kernel gives /proc/self to root, and the maps could not be written.
    let _ = nix::sys::prctl::set_dumpable(true);
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER | further)
        .map_err(|errno| Failure::new("creating namespaces", format!("{errno}{}", user_namespace_hint())))?;
    let write = |file: &str, text: String| {
        fs::write(file, text).map_err(|error| Failure::new("mapping the user id", format!("{file}: {error}")))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{INSIDE_ID} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{INSIDE_ID} {gid} 1"))
}

/// Why the kernel may have refused a user namespace.
fn user_namespace_hint() -> &'static str {
    let is = |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "; hint: kernel.apparmor_restrict_unprivileged_userns is 1"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "; hint: kernel.unprivileged_userns_clone is 0"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "; hint: user.max_user_namespaces is 0"
    } else {
        "; hint: a container runtime's system call filter may forbid it"
    }
}

/// Gives up every capability, now and for whatever is executed.
pub(super) fn drop_capabilities() -> Result<(), Failure> {
    drop_bounding_set()?;
    drop_own_capabilities()?;
    rustix::thread::set_no_new_privs(true).map_err(|errno| Failure::new("setting no_new_privs", errno))
}

/// No program that is executed can have any. This takes a capability itself.
pub(super) fn drop_bounding_set() -> Result<(), Failure> {
    for bit in 0..64 {
        let Some(capability) = CapabilitySet::from_bits(1 << bit) else { continue };
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // This kernel has no such capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(Failure::new("dropping capabilities", errno)),
        }
    }
    Ok(())
}

/// This process has none.
pub(super) fn drop_own_capabilities() -> Result<(), Failure> {
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|errno| Failure::new("dropping capabilities", errno))
}

/// Restricts the file system a second time: everything can be read and run, only `writable` can be written.
pub(super) fn landlock(writable: &[&str]) -> Result<(), Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("landlock", error);
    let abi = ABI::V6;
    let read = AccessFs::from_read(abi);
    let all = AccessFs::from_all(abi);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(|error| fail(&error))?
        .scope(Scope::from_all(abi))
        .map_err(|error| fail(&error))?
        .create()
        .map_err(|error| fail(&error))?;
    let files: BitFlags<AccessFs> = read | AccessFs::WriteFile;
    let terminals = files | AccessFs::IoctlDev | AccessFs::Truncate;
    let plan = [("/", read), ("/proc", files), ("/dev", terminals), ("/dev/shm", all)];
    for (path, access) in plan.into_iter().chain(writable.iter().map(|path| (*path, all))) {
        let Ok(fd) = PathFd::new(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(fd, access)).map_err(|error| fail(&error))?;
    }
    rules.restrict_self().map_err(|error| fail(&error)).map(drop)
}

/// The rules of a command without namespaces: all it can reach of the host's files.
pub(super) struct PlainRules(Vec<PathBeneath<PathFd>>);

impl PlainRules {
    /// The minimal system to read and run, `dirs` to work in.
    pub(super) fn open(dirs: &[JobMount]) -> Result<Self, Failure> {
        let abi = ABI::V6;
        let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
        let etc = |name: &&str| format!("/etc/{name}");
        let generated = system::etc_generated();
        let system = system::TOP.iter().map(|name| format!("/{name}"));
        let system = system.chain(system::ETC_DIRS.iter().chain(&system::ETC_FILES).map(etc));
        let system = system.chain(generated.iter().map(|(name, _)| etc(name))).chain(["/proc".to_owned()]);
        let devices = DEVICES.map(|name| (format!("/dev/{name}"), read | AccessFs::WriteFile));
        let plan = system.map(|path| (path, read)).chain(devices);
        let mut rules = Vec::new();
        for (path, access) in plan {
            // Not every system has every part.
            let Ok(fd) = PathFd::new(&path) else { continue };
            let is_dir = fs::metadata(&path).is_ok_and(|meta| meta.is_dir());
            let access = if is_dir { access } else { access & AccessFs::from_file(abi) };
            rules.push(PathBeneath::new(fd, access));
        }
        for dir in dirs {
            let fd = PathFd::new(&dir.target).map_err(|_| Failure::new("landlock", "a directory cannot be opened"))?;
            rules.push(PathBeneath::new(fd, if dir.read_only { read } else { all }));
        }
        Ok(Self(rules))
    }

    /// Holds this process to them, for good.
    pub(super) fn enforce(self) -> Result<(), Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::new("landlock", error);
        let abi = ABI::V6;
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))
            .map_err(|error| fail(&error))?
            .handle_access(AccessNet::from_all(abi))
            .map_err(|error| fail(&error))?
            .scope(Scope::from_all(abi))
            .map_err(|error| fail(&error))?
            .create()
            .map_err(|error| fail(&error))?;
        for rule in self.0 {
            rules = rules.add_rule(rule).map_err(|error| fail(&error))?;
        }
        let status = rules.restrict_self().map_err(|error| fail(&error))?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(fail(&"not available"));
        }
        Ok(())
    }
}

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Resource limits of a command, for each of its processes.
pub(super) fn limit(limits: &Limits) -> Result<(), Failure> {
    let set = |resource, value: u64| {
        setrlimit(resource, value, value).map_err(|errno| Failure::new(format!("setting {resource:?}"), errno))
    };
    set(Resource::RLIMIT_CORE, 0)?;
    // Each descriptor can be a socket with a full buffer.
    lower(Resource::RLIMIT_NOFILE, 1024)?;
    lower(Resource::RLIMIT_MEMLOCK, 8 << 20)?;
    if limits.memory_bytes > 0 {
        lower(Resource::RLIMIT_DATA, limits.memory_bytes)?;
    }
    if limits.processes > 0 {
        lower(Resource::RLIMIT_NPROC, limits.processes)?;
    }
    if limits.file_size_bytes > 0 {
        lower(Resource::RLIMIT_FSIZE, limits.file_size_bytes)?;
    }
    Ok(())
}

fn lower(resource: Resource, value: u64) -> Result<(), Failure> {
    let fail = |errno| Failure::new(format!("setting {resource:?}"), errno);
    let (_, hard) = nix::sys::resource::getrlimit(resource).map_err(fail)?;
    let value = value.min(hard);
    setrlimit(resource, value, value).map_err(fail)
}
