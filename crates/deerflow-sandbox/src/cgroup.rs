//! Memory and number of processes of a sandbox, limited by the kernel as a whole: a cgroup (version 2) for each.
//!
//! ```text
//! <the server's cgroup>
//! ├── deerflow-server                      the server itself, if it had to make room: a cgroup with limits below it holds no process
//! └── deerflow-sandboxes.<pid>.<start>     of this server; of a dead one it is removed at the next start
//!     └── <number>                         one sandbox
//! ```
//!
//! Where the hierarchy cannot be written, or has no memory controller, resource limits of each process and a look at their
//! sum now and then are what there is; [`Cgroups::of_this_process`] says why.

mod place;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What limits need.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// Where the server goes when it is in the way.
const SERVER: &str = "deerflow-server";
/// Start of the names of what this and earlier servers made.
const PREFIX: &str = "deerflow-sandboxes.";
/// How long the last processes may take to leave when the server stops.
const LEAVING: Duration = Duration::from_millis(500);

/// The cgroups of a server's sandboxes.
#[derive(Debug)]
pub(crate) struct Cgroups {
    dir: PathBuf,
    next: AtomicU64,
    /// Those whose processes were about to die when they were let go.
    leaving: Mutex<Vec<PathBuf>>,
}

impl Cgroups {
    /// Beneath the cgroup of this process, which moves into one of its own if it must. Leftovers of dead servers go.
    ///
    /// # Errors
    /// Why there are none, for the operator.
    pub(crate) fn of_this_process() -> Result<Self, String> {
        Self::beneath(&place::own()?, &CONTROLLERS)
    }

    fn beneath(own: &Path, controllers: &[&str]) -> Result<Self, String> {
        let base = match own.file_name() {
            Some(name) if name == SERVER => own.parent().unwrap_or(own),
            _ => own,
        };
        let available = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
        if let Some(missing) = controllers.iter().find(|name| !lists(&available, name)) {
            return Err(format!(
                "the {missing} controller is not available in the server's cgroup: it is with cgroup version 1, or was not delegated"
            ));
        }
        remove_leftovers(base);
        enable(base, controllers)?;
        let dir = base.join(format!("{PREFIX}{}", owner(std::process::id()).ok_or("/proc cannot be read")?));
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(refused(&error)),
            _ => {}
        }
        // Numbers go on where another provider of this process may have begun.
        let cgroups = Self { dir, next: AtomicU64::new(0), leaving: Mutex::default() };
        enable(&cgroups.dir, controllers)?;
        Ok(cgroups)
    }

    /// A cgroup for a new sandbox; 0 is no limit.
    pub(crate) fn make(self: &Arc<Self>, memory_bytes: u64, processes: u64) -> std::io::Result<Cell> {
        self.collect();
        let path = loop {
            let path = self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
            match fs::create_dir(&path) {
                Ok(()) => break path,
                // Of another provider of this process.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let cell = Cell { cgroups: Arc::clone(self), path };
        let limit = |value: u64| if value == 0 { "max".to_owned() } else { value.to_string() };
        fs::write(cell.path.join("memory.max"), limit(memory_bytes))?;
        // Pid 1 counts too.
        fs::write(cell.path.join("pids.max"), limit(if processes == 0 { 0 } else { processes.saturating_add(1) }))?;
        fs::write(cell.path.join("memory.oom.group"), "1")?;
        // A kernel without swap has no such file.
        if memory_bytes > 0 {
            let _ = fs::write(cell.path.join("memory.swap.max"), "0");
        }
        Ok(cell)
    }

    /// Removes what has become empty.
    pub(crate) fn collect(&self) {
        self.leaving().retain(|path| !remove(path));
    }

    fn leaving(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let deadline = Instant::now() + LEAVING;
        self.collect();
        while !self.leaving().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            self.collect();
        }
        // Not empty: another provider of this process has sandboxes, or what is left is removed at the next start.
        remove(&self.dir);
    }
}

/// The cgroup of one sandbox. Dropping it kills what is in it.
#[derive(Debug)]
pub(crate) struct Cell {
    cgroups: Arc<Cgroups>,
    path: PathBuf,
}

impl Cell {
    /// A handle with which a process that may not open it moves itself in, by writing `0`.
    pub(crate) fn entry(&self) -> std::io::Result<OwnedFd> {
        File::options().write(true).open(self.path.join("cgroup.procs")).map(OwnedFd::from)
    }

    /// True if the kernel has ended processes in it for want of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        out_of_memory(&fs::read_to_string(self.path.join("memory.events")).unwrap_or_default())
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        kill(&self.path);
        if !remove(&self.path) {
            self.cgroups.leaving().push(std::mem::take(&mut self.path));
        }
    }
}

fn out_of_memory(events: &str) -> bool {
    let count = |line: &str| line.split_once(' ').and_then(|(_, count)| count.trim().parse::<u64>().ok()).unwrap_or(0);
    events.lines().any(|line| (line.starts_with("oom_kill ") || line.starts_with("oom_group_kill ")) && count(line) > 0)
}

/// Ends all processes in a cgroup and beneath it. Kernels before 5.14 have no such file; pid 1 takes its processes along
/// there too.
fn kill(path: &Path) {
    let _ = File::options().write(true).open(path.join("cgroup.kill")).and_then(|mut file| {
        use std::io::Write;
        file.write_all(b"1")
    });
}

/// True if it is gone.
fn remove(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn lists(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|listed| listed == word)
}

/// Makes controllers available to the children of a cgroup. If processes are in the way, and they are this one, it moves.
fn enable(dir: &Path, controllers: &[&str]) -> Result<(), String> {
    let control = dir.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control).unwrap_or_default();
    if controllers.iter().all(|name| lists(&enabled, name)) {
        return Ok(());
    }
    let wanted: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    let wanted = wanted.join(" ");
    match fs::write(&control, &wanted) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
        Err(error) => return Err(refused(&error)),
    }
    let leaf = dir.join(SERVER);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(refused(&error)),
        _ => {}
    }
    let moved = fs::write(leaf.join("cgroup.procs"), "0").and_then(|()| fs::write(&control, &wanted));
    moved.map_err(|error| {
        let _ = fs::write(dir.join("cgroup.procs"), "0");
        remove(&leaf);
        if error.kind() == ErrorKind::ResourceBusy {
            "other processes are in the server's cgroup; hint: start it as a service or with `systemd-run --user --scope -p Delegate=yes`"
                .to_owned()
        } else {
            refused(&error)
        }
    })
}

fn refused(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => "the cgroup file system is read-only".to_owned(),
        ErrorKind::PermissionDenied => {
            "the server's cgroup is not delegated to its user; hint: `Delegate=yes` in the service".to_owned()
        }
        _ => format!("the server's cgroup cannot be used: {error}"),
    }
}

/// Removes the cgroups of servers that are gone, with what is still in them.
fn remove_leftovers(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(made_by) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let Some(pid) = made_by.split('.').next().and_then(|pid| pid.parse().ok()) else { continue };
        if owner(pid).as_deref() == Some(made_by) {
            continue;
        }
        let path = entry.path();
        kill(&path);
        let deadline = Instant::now() + LEAVING;
        while !remove_with_children(&path) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn remove_with_children(path: &Path) -> bool {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    remove(path)
}

/// A living process, recognisable even when its number is given to another: `<pid>.<start>`.
fn owner(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have anything in it. The start is the 20th field after it.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{pid}.{start}"))
}

#[cfg(test)]
mod tests;
