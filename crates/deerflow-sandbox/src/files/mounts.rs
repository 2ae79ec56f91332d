//! Which host directory is behind which virtual path.

use std::path::PathBuf;

use crate::config::SandboxConfig;
use crate::path::{ACP_WORKSPACE, OUTPUTS, SKILLS, UPLOADS, USER_DATA, WORKSPACE, strip_prefix};
use crate::{SandboxError, ThreadPaths};

/// Who may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Tools and commands.
    ReadWrite,
    /// Commands only.
    ToolsReadOnly,
    /// Nobody.
    ReadOnly,
}

/// One entry of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Virtual path of its root.
    pub prefix: String,
    /// Directory on the host.
    pub host: PathBuf,
    /// Who may write.
    pub access: Access,
}

/// The table of one thread, longest prefix first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTable {
    mounts: Vec<Mount>,
    custom_roots: Vec<String>,
}

impl MountTable {
    /// The built-in mounts of a thread and the usable ones of the configuration.
    #[must_use]
    pub fn for_thread(paths: &ThreadPaths, config: &SandboxConfig) -> Self {
        let mount = |prefix: String, host: PathBuf, access| Mount { prefix, host, access };
        let mut mounts = vec![
            mount(USER_DATA.to_owned(), paths.user_data(), Access::ReadWrite),
            mount(ACP_WORKSPACE.to_owned(), paths.acp_workspace(), Access::ToolsReadOnly),
            mount(format!("{SKILLS}/public"), paths.base().join("skills_view").join("public"), Access::ReadOnly),
        ];
        for category in ["custom", "legacy", "integrations"] {
            let host = paths.user_dir().join("skills_view").join(category);
            mounts.push(mount(format!("{SKILLS}/{category}"), host, Access::ReadOnly));
        }
        let mut custom_roots = Vec::new();
        for custom in config.usable_mounts() {
            custom_roots.push(custom.container_path.clone());
            let access = if custom.read_only { Access::ReadOnly } else { Access::ReadWrite };
            mounts.push(mount(custom.container_path, custom.host_path, access));
        }
        mounts.sort_by(|a, b| b.prefix.len().cmp(&a.prefix.len()).then_with(|| a.prefix.cmp(&b.prefix)));
        Self { mounts, custom_roots }
    }

    /// The mounts, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter()
    }

    pub(crate) fn custom_roots(&self) -> &[String] {
        &self.custom_roots
    }

    /// The mount that a clean virtual path is in, and the rest of the path.
    pub(crate) fn lookup<'a>(&self, path: &'a str) -> Option<(&Mount, &'a str)> {
        self.mounts.iter().find_map(|mount| strip_prefix(path, &mount.prefix).map(|rest| (mount, rest)))
    }

    /// Mounts strictly beneath a virtual path that is itself no mount (`/mnt/skills`).
    pub(crate) fn beneath(&self, path: &str) -> Vec<&Mount> {
        let mut found: Vec<_> = self
            .mounts
            .iter()
            .filter(|mount| strip_prefix(&mount.prefix, path).is_some_and(|rest| !rest.is_empty()))
            .collect();
        found.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        found
    }

    /// Refuses a place where file tools may not write.
    pub(crate) fn check_writable(&self, mount: &Mount, resolved: &str) -> Result<(), SandboxError> {
        let read_only = || SandboxError::ReadOnly { path: resolved.to_owned() };
        if mount.access != Access::ReadWrite {
            return Err(read_only());
        }
        if mount.prefix == USER_DATA {
            let inside = [WORKSPACE, UPLOADS, OUTPUTS]
                .iter()
                .any(|root| strip_prefix(resolved, root).is_some_and(|rest| !rest.is_empty()));
            if !inside {
                return Err(read_only());
            }
        }
        Ok(())
    }
}
