//! Who this process is, and whether another one is still alive.
//!
//! Each process holds a lock on a file of its own for as long as it lives. The kernel drops the lock with the process, so a
//! dead owner is proved dead at once, whatever its row in the database says.

use deerflow_core::ports::Worker;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The worker file cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; hint: DEER_FLOW_HOME must be a folder you can write to")]
pub struct WorkerError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// This process's lock. Held until dropped.
#[derive(Debug)]
pub struct WorkerLock {
    dir: PathBuf,
    path: PathBuf,
    worker: Worker,
    _file: File,
}

impl WorkerLock {
    /// Takes a lock under `home`, and removes the files of the dead.
    ///
    /// # Errors
    /// [`WorkerError`] when the folder cannot be written.
    pub fn acquire(home: &Path) -> Result<Self, WorkerError> {
        let dir = home.join("workers");
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| WorkerError { path, source }
        };
        std::fs::create_dir_all(&dir).map_err(at(&dir))?;
        sweep(&dir);
        let id = uuid::Uuid::new_v4().to_string();
        let path = dir.join(format!("{id}.lock"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at(&path))?;
        file.lock().map_err(at(&path))?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let label =
            format!("process {} on {}", std::process::id(), if host.is_empty() { "this machine" } else { host });
        Ok(Self { dir, path, worker: Worker { id, label }, _file: file })
    }

    /// Who this process is.
    #[must_use]
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Whether a worker belongs to this machine, so that its lock tells whether it is alive.
    #[must_use]
    pub fn is_neighbour(&self, worker: &Worker) -> bool {
        let host = |worker: &Worker| worker.label.rsplit_once(" on ").map(|(_, host)| host.to_owned());
        host(worker) == host(&self.worker)
    }

    /// Whether a worker of this machine is alive, asked by somebody who is none.
    #[must_use]
    pub fn is_held(home: &Path, worker: &Worker) -> bool {
        holds_lock(&home.join("workers").join(format!("{}.lock", worker.id)))
    }

    /// Whether a worker of this machine is alive.
    #[must_use]
    pub fn is_alive(&self, worker: &Worker) -> bool {
        worker.id == self.worker.id || holds_lock(&self.dir.join(format!("{}.lock", worker.id)))
    }
}

impl Drop for WorkerLock {
    fn drop(&mut self) {
        // The lock goes with the file handle; a file left behind is swept by the next process.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn holds_lock(path: &Path) -> bool {
    // Never created here: a missing file is a dead worker.
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn sweep(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "lock")) {
        // A file just made and not locked yet belongs to a process that is starting.
        let young = path
            .metadata()
            .and_then(|m| m.modified())
            .ok()
            .and_then(|t| t.elapsed().ok())
            .is_none_or(|age| age.as_secs() < 60);
        if !young && !holds_lock(&path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_the_living_from_the_dead() {
        let home = tempfile::tempdir().unwrap();
        let (mine, other) = (WorkerLock::acquire(home.path()).unwrap(), WorkerLock::acquire(home.path()).unwrap());
        let gone = other.worker().clone();
        assert!(mine.is_alive(&gone));
        assert!(mine.is_alive(mine.worker()));
        drop(other);
        assert!(!mine.is_alive(&gone));
        assert!(!mine.is_alive(&Worker { id: "never".into(), label: String::new() }));
    }

    #[test]
    fn a_home_that_is_a_file_is_explained() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = WorkerLock::acquire(file.path()).unwrap_err().to_string();
        assert!(error.contains("hint: DEER_FLOW_HOME"), "{error}");
    }
}
