//! What every sandbox tool needs: the thread's computer, limits, and one wording for what goes wrong.

use crate::documents::DocumentReader;
use crate::limits::ToolLimits;
use crate::locks::KeyedLocks;
use deerflow_core::{ToolContext, ToolError};
use deerflow_sandbox::{NetworkAccess, Sandbox, SandboxError, SandboxProvider, Tier, VirtualPath};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Shared by the tools of one installation.
pub(crate) struct Workbench {
    provider: Arc<dyn SandboxProvider>,
    pub(crate) limits: ToolLimits,
    pub(crate) documents: DocumentReader,
    locks: KeyedLocks,
}

/// What stands at a path that was looked for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    File,
    Directory,
    Either,
}

impl Workbench {
    pub(crate) fn new(provider: Arc<dyn SandboxProvider>, limits: ToolLimits, documents: DocumentReader) -> Self {
        Self { provider, limits, documents, locks: KeyedLocks::default() }
    }

    /// What commands can reach.
    pub(crate) fn network(&self) -> NetworkAccess {
        self.provider.network()
    }

    /// How commands are confined.
    pub(crate) fn tier(&self) -> Tier {
        self.provider.capability().tier
    }

    /// The computer of the call's thread.
    pub(crate) async fn sandbox(&self, ctx: &ToolContext) -> Result<Arc<dyn Sandbox>, ToolError> {
        let acquired = self.provider.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await;
        acquired.map_err(|error| ToolError::Respond(format!("The sandbox of this thread is not available: {error}")))
    }

    /// Keeps other writes of the same file of the same sandbox out, and gives up in time.
    pub(crate) async fn lock(
        &self,
        ctx: &ToolContext,
        sandbox: &dyn Sandbox,
        path: &VirtualPath,
    ) -> Result<OwnedMutexGuard<()>, ToolError> {
        let key = format!("{}\n{path}", sandbox.id());
        let wait = self.limits.lock_timeout;
        tokio::select! {
            () = ctx.cancel.cancelled() => Err(ToolError::Cancelled),
            guard = self.locks.lock(&key, wait) => guard.ok_or_else(|| {
                let seconds = wait.as_secs();
                ToolError::Respond(format!("{path} was being written by another call for more than {seconds} s; try again"))
            }),
        }
    }
}

/// The path an argument names.
pub(crate) fn parse_path(sandbox: &dyn Sandbox, input: &str) -> Result<VirtualPath, ToolError> {
    // A host path of this thread can only come from text that got past the mask; it means its virtual path.
    sandbox.parse_path(&sandbox.mask(input.trim())).map_err(|error| respond(&error, Wanted::File))
}

/// A failure as the model should hear it.
pub(crate) fn respond(error: &SandboxError, wanted: Wanted) -> ToolError {
    ToolError::Respond(explain(error, wanted))
}

/// The same as text. Never a host path: the sandbox's errors have none.
pub(crate) fn explain(error: &SandboxError, wanted: Wanted) -> String {
    use SandboxError as E;
    match error {
        E::NotFound { path } => {
            let what = match wanted {
                Wanted::File => "File",
                Wanted::Directory => "Directory",
                Wanted::Either => "File or directory",
            };
            format!("{what} not found: {path}")
        }
        E::PermissionDenied { path } => format!("Permission denied: {path}"),
        E::ReadOnly { path } => format!(
            "Permission denied: {path} is read-only; write under /mnt/user-data/workspace or /mnt/user-data/outputs"
        ),
        E::OutsideRoot { path } => {
            format!("Permission denied: {path} is or passes through a link that leads outside the sandbox")
        }
        E::IsDirectory { path } => format!("Path is a directory, not a file: {path}"),
        E::NotDirectory { path } => format!("Path is not a directory: {path}"),
        E::InvalidPath { path, .. } if path.split(['/', '\\']).any(|name| name == "..") => {
            format!("Access denied: path traversal detected: {path}; use a path without '..'")
        }
        E::InvalidPath { path, reason } => {
            format!("Permission denied: {path:?} is not a path of the sandbox: {reason}")
        }
        E::InvalidPattern { what, message } => format!("Invalid {what}: {message}"),
        E::NoMatch { path } => format!("String to replace not found in file: {path}"),
        other => capitalised(&other.to_string()),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_the_specification_says() {
        let path = || "/mnt/user-data/workspace/a".to_owned();
        for (error, wanted, text) in [
            (SandboxError::NotFound { path: path() }, Wanted::File, "File not found: /mnt/user-data/workspace/a"),
            (
                SandboxError::NotFound { path: path() },
                Wanted::Directory,
                "Directory not found: /mnt/user-data/workspace/a",
            ),
            (
                SandboxError::PermissionDenied { path: path() },
                Wanted::File,
                "Permission denied: /mnt/user-data/workspace/a",
            ),
            (
                SandboxError::NotDirectory { path: path() },
                Wanted::Directory,
                "Path is not a directory: /mnt/user-data/workspace/a",
            ),
            (
                SandboxError::NoMatch { path: path() },
                Wanted::File,
                "String to replace not found in file: /mnt/user-data/workspace/a",
            ),
            (
                SandboxError::InvalidPath { path: "../x".into(), reason: "'..' is not allowed" },
                Wanted::File,
                "Access denied: path traversal detected: ../x; use a path without '..'",
            ),
        ] {
            assert_eq!(explain(&error, wanted), text);
        }
    }
}
