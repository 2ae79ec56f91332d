//! The sandbox of both local providers: the same files, a different shell.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::files::{
    DirEntry, EditOutcome, Expect, FileStat, GlobOutcome, GrepOutcome, GrepQuery, Listing, ThreadFiles, WriteOutcome,
};
use crate::mask::PathMask;
use crate::sandbox::{ExecOutput, ExecRequest, Replacement, Sandbox};
use crate::text::TextFile;
use crate::{SandboxError, ThreadPaths, VirtualPath};

/// Runs commands for one thread.
#[async_trait]
pub(crate) trait Shell: Send + Sync {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError>;
}

/// Most sandboxes kept although nobody holds them, and for how long: a run asks for its sandbox again and again.
const KEPT: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The sandboxes that somebody holds or held a moment ago, by name of the thread: one thread has one, so that its writers
/// know of each other.
pub(crate) struct SandboxCache<S>(Mutex<HashMap<String, Known<S>>>);

struct Known<S> {
    sandbox: Weak<LocalSandbox<S>>,
    /// Holds it for a while. A sandbox has no processes and no open files, so that a deleted thread loses nothing by it.
    kept: Option<Arc<LocalSandbox<S>>>,
    made: Instant,
}

impl<S> Known<S> {
    fn get(&mut self) -> Option<Arc<LocalSandbox<S>>> {
        if self.made.elapsed() > KEPT_FOR {
            self.kept = None;
        }
        self.sandbox.upgrade()
    }
}

impl<S> Default for SandboxCache<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> SandboxCache<S> {
    /// The thread's sandbox, made if it is not known; its directories are there.
    pub(crate) fn get_or_make(
        &self,
        folders: Folders,
        make: impl FnOnce(Arc<Folders>) -> LocalSandbox<S>,
    ) -> Result<Arc<LocalSandbox<S>>, SandboxError> {
        let name = folders.paths.name();
        let known = self.lock().get_mut(&name).and_then(Known::get);
        if let Some(sandbox) = known {
            // The directories may have been deleted meanwhile.
            sandbox.folders.ensure()?;
            return Ok(sandbox);
        }
        let folders = Arc::new(folders);
        folders.ensure()?;
        let mut sandboxes = self.lock();
        if let Some(sandbox) = sandboxes.get_mut(&name).and_then(Known::get) {
            return Ok(sandbox);
        }
        sandboxes.retain(|_, known| known.get().is_some());
        if sandboxes.values().filter(|known| known.kept.is_some()).count() >= KEPT
            && let Some(oldest) =
                sandboxes.values_mut().filter(|known| known.kept.is_some()).min_by_key(|known| known.made)
        {
            oldest.kept = None;
        }
        let sandbox = Arc::new(make(folders));
        let kept = Some(Arc::clone(&sandbox));
        sandboxes.insert(name, Known { sandbox: Arc::downgrade(&sandbox), kept, made: Instant::now() });
        Ok(sandbox)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directories of a thread, made when they are missing.
pub(crate) struct Folders {
    paths: ThreadPaths,
    owner: Option<u32>,
    /// The owner must get there by name.
    reach: bool,
    /// Of `user-data` when all was in order.
    in_order: Mutex<Option<Stamp>>,
}

/// Which directory it is, and when its entries last changed.
type Stamp = (u64, u64, i64, i64);

/// The clock of a file system ticks slowly: two changes within a tick look like one.
const TICK: Duration = Duration::from_millis(50);

impl Folders {
    pub(crate) fn new(paths: ThreadPaths, owner: Option<u32>, reach: bool) -> Self {
        Self { paths, owner, reach, in_order: Mutex::new(None) }
    }

    pub(crate) fn paths(&self) -> &ThreadPaths {
        &self.paths
    }

    /// Whose they are, when the server is root.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// Makes what is missing. One look at `user-data` tells whether that is needed: it goes with its thread, and when a
    /// command replaces a directory in it, its time changes; the others are out of the reach of commands.
    pub(crate) fn ensure(&self) -> Result<(), SandboxError> {
        let known = *self.lock();
        if known.is_some() && self.stamp().map(|(stamp, _)| stamp) == known {
            return Ok(());
        }
        self.paths.ensure_owned(self.owner, self.reach)?;
        *self.lock() = self.stamp().filter(|(_, settled)| *settled).map(|(stamp, _)| stamp);
        Ok(())
    }

    /// The stamp, and whether it is old enough for a later change to show.
    fn stamp(&self) -> Option<(Stamp, bool)> {
        let meta = std::fs::symlink_metadata(self.paths.user_data()).ok()?;
        let changed = Duration::new(meta.ctime().try_into().ok()?, meta.ctime_nsec().try_into().ok()?);
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(changed);
        let settled = age.is_some_and(|age| age > TICK);
        Some(((meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()), settled))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stamp>> {
        self.in_order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files of a thread and a shell.
pub(crate) struct LocalSandbox<S> {
    pub(crate) id: String,
    pub(crate) folders: Arc<Folders>,
    pub(crate) files: Arc<ThreadFiles>,
    pub(crate) mask: PathMask,
    pub(crate) shell: S,
}

impl<S> LocalSandbox<S> {
    async fn blocking<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&ThreadFiles) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let files = Arc::clone(&self.files);
        tokio::task::spawn_blocking(move || work(&files))
            .await
            .unwrap_or_else(|error| Err(SandboxError::Io { action, path: None, message: error.to_string() }))
    }
}

#[async_trait]
impl<S: Shell> Sandbox for LocalSandbox<S> {
    fn id(&self) -> &str {
        &self.id
    }

    fn parse_path(&self, input: &str) -> Result<VirtualPath, SandboxError> {
        self.files.parse(input)
    }

    fn files(&self) -> Option<Arc<ThreadFiles>> {
        Some(Arc::clone(&self.files))
    }

    fn mask(&self, text: &str) -> String {
        self.mask.apply(text)
    }

    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError> {
        self.shell.execute(request, cancel).await
    }

    async fn read_bytes(&self, path: &VirtualPath, max: u64) -> Result<Vec<u8>, SandboxError> {
        let path = path.clone();
        self.blocking("reading", move |files| files.read_bytes(&path, max)).await
    }

    async fn read_text(&self, path: &VirtualPath) -> Result<TextFile, SandboxError> {
        let path = path.clone();
        self.blocking("reading", move |files| files.read_text(&path)).await
    }

    async fn write_bytes(
        &self,
        path: &VirtualPath,
        bytes: Vec<u8>,
        expect: Expect,
    ) -> Result<WriteOutcome, SandboxError> {
        let path = path.clone();
        self.blocking("writing", move |files| files.write_bytes(&path, &bytes, &expect)).await
    }

    async fn append(&self, path: &VirtualPath, text: &str) -> Result<WriteOutcome, SandboxError> {
        let (path, text) = (path.clone(), text.to_owned());
        self.blocking("writing", move |files| files.append(&path, &text)).await
    }

    async fn replace_text(&self, path: &VirtualPath, edit: Replacement) -> Result<EditOutcome, SandboxError> {
        let path = path.clone();
        self.blocking("editing", move |files| files.replace_text(&path, &edit)).await
    }

    async fn list_dir(&self, path: &VirtualPath, max_depth: usize) -> Result<Listing, SandboxError> {
        let path = path.clone();
        self.blocking("listing", move |files| files.list_dir(&path, max_depth)).await
    }

    async fn read_dir(&self, path: &VirtualPath) -> Result<Vec<DirEntry>, SandboxError> {
        let path = path.clone();
        self.blocking("listing", move |files| files.read_dir(&path)).await
    }

    async fn glob(
        &self,
        path: &VirtualPath,
        pattern: &str,
        include_dirs: bool,
        max_results: usize,
    ) -> Result<GlobOutcome, SandboxError> {
        let (path, pattern) = (path.clone(), pattern.to_owned());
        self.blocking("searching", move |files| files.glob(&path, &pattern, include_dirs, max_results)).await
    }

    async fn grep(&self, path: &VirtualPath, query: GrepQuery) -> Result<GrepOutcome, SandboxError> {
        let path = path.clone();
        self.blocking("searching", move |files| files.grep(&path, &query)).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<FileStat, SandboxError> {
        let path = path.clone();
        self.blocking("reading", move |files| files.stat(&path)).await
    }

    async fn sha256(&self, path: &VirtualPath) -> Result<String, SandboxError> {
        let path = path.clone();
        self.blocking("reading", move |files| files.sha256(&path)).await
    }
}
