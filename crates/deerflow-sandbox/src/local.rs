//! The sandbox of both local providers: the same files, a different shell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::files::{
    DirEntry, EditOutcome, Expect, FileStat, GlobOutcome, GrepOutcome, GrepQuery, Listing, ThreadFiles, WriteOutcome,
};
use crate::mask::PathMask;
use crate::sandbox::{ExecOutput, ExecRequest, Replacement, Sandbox};
use crate::text::TextFile;
use crate::{SandboxError, VirtualPath};

/// Runs commands for one thread.
#[async_trait]
pub(crate) trait Shell: Send + Sync {
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError>;
}

/// The sandboxes that somebody holds, by name of the thread: one thread has one, so that its writers know of each other.
pub(crate) struct SandboxCache<S>(Mutex<HashMap<String, Weak<LocalSandbox<S>>>>);

impl<S> Default for SandboxCache<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> SandboxCache<S> {
    /// The thread's sandbox, made if nobody holds one.
    pub(crate) fn get_or_make(&self, name: String, make: impl FnOnce() -> LocalSandbox<S>) -> Arc<LocalSandbox<S>> {
        let mut sandboxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = sandboxes.get(&name).and_then(Weak::upgrade) {
            return sandbox;
        }
        sandboxes.retain(|_, sandbox| sandbox.strong_count() > 0);
        let sandbox = Arc::new(make());
        sandboxes.insert(name, Arc::downgrade(&sandbox));
        sandbox
    }
}

/// Files of a thread and a shell.
pub(crate) struct LocalSandbox<S> {
    pub(crate) id: String,
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
