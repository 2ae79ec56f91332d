//! Virtual paths: parsed once, then cannot be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// The user-data tree, parent of workspace, uploads and outputs.
pub const USER_DATA: &str = "/mnt/user-data";
/// Default working directory of commands, base of relative paths.
pub const WORKSPACE: &str = "/mnt/user-data/workspace";
/// Files the user gave.
pub const UPLOADS: &str = "/mnt/user-data/uploads";
/// Files for the user.
pub const OUTPUTS: &str = "/mnt/user-data/outputs";
/// Read-only skills.
pub const SKILLS: &str = "/mnt/skills";
/// Workspace of external (ACP) agents.
pub const ACP_WORKSPACE: &str = "/mnt/acp-workspace";

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// Which part of the virtual tree a path is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VirtualRoot {
    /// `/mnt/user-data` itself: can be listed, not written.
    UserData,
    /// `/mnt/user-data/workspace`.
    Workspace,
    /// `/mnt/user-data/uploads`.
    Uploads,
    /// `/mnt/user-data/outputs`.
    Outputs,
    /// `/mnt/skills`.
    Skills,
    /// `/mnt/acp-workspace`.
    AcpWorkspace,
    /// A mount from the configuration.
    Custom,
}

/// A clean absolute path inside the virtual tree: no `.`, `..`, `//`, NUL or backslash, no trailing separator.
///
/// A `VirtualPath` says nothing about what is on disk: links are resolved, beneath their root, when a file is opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VirtualPath(String);

impl VirtualPath {
    /// Parses an absolute path under one of the fixed roots, or a path relative to the workspace.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPath`] for anything else.
    pub fn parse(input: &str) -> Result<Self, SandboxError> {
        Self::parse_with(input, &[])
    }

    /// The same, with the container paths of custom mounts as further roots.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPath`].
    pub fn parse_with(input: &str, custom_roots: &[String]) -> Result<Self, SandboxError> {
        let refuse = |reason| Err(SandboxError::InvalidPath { path: shorten(input), reason });
        if input.is_empty() {
            return refuse("it is empty");
        }
        if input.len() > MAX_PATH {
            return refuse("it is too long");
        }
        if input.contains('\0') {
            return refuse("it contains a NUL character");
        }
        if input.contains('\\') {
            return refuse("it contains a backslash");
        }
        let mut clean = if input.starts_with('/') { String::new() } else { WORKSPACE.to_owned() };
        for name in input.split('/') {
            match name {
                "" | "." => {}
                ".." => return refuse("'..' is not allowed"),
                name if name.len() > MAX_NAME => return refuse("a name in it is too long"),
                name => {
                    clean.push('/');
                    clean.push_str(name);
                }
            }
        }
        if root_of(&clean, custom_roots).is_none() {
            return refuse(
                "use a path under /mnt/user-data/workspace, /mnt/user-data/uploads, /mnt/user-data/outputs, /mnt/skills or \
                 /mnt/acp-workspace",
            );
        }
        Ok(Self(clean))
    }

    /// The workspace.
    #[must_use]
    pub fn workspace() -> Self {
        Self(WORKSPACE.to_owned())
    }

    /// The outputs directory.
    #[must_use]
    pub fn outputs() -> Self {
        Self(OUTPUTS.to_owned())
    }

    /// The uploads directory.
    #[must_use]
    pub fn uploads() -> Self {
        Self(UPLOADS.to_owned())
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The root it is in.
    #[must_use]
    pub fn root(&self) -> VirtualRoot {
        root_of(&self.0, &[]).unwrap_or(VirtualRoot::Custom)
    }

    /// The last name.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// True if this path is `base` or beneath it, by whole names.
    #[must_use]
    pub fn is_within(&self, base: &VirtualPath) -> bool {
        strip_prefix(&self.0, &base.0).is_some()
    }

    /// This path and `relative` beneath it.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPath`] if `relative` is absolute or not clean.
    pub fn join(&self, relative: &str) -> Result<Self, SandboxError> {
        let refuse = |reason| Err(SandboxError::InvalidPath { path: shorten(relative), reason });
        if relative.starts_with('/') {
            return refuse("a relative path is needed");
        }
        let custom = [self.0.clone()];
        Self::parse_with(&format!("{}/{relative}", self.0), &custom)
    }
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for VirtualPath {
    type Err = SandboxError;
    fn from_str(text: &str) -> Result<Self, SandboxError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for VirtualPath {
    type Error = SandboxError;
    fn try_from(text: String) -> Result<Self, SandboxError> {
        Self::parse(&text)
    }
}

impl From<VirtualPath> for String {
    fn from(path: VirtualPath) -> Self {
        path.0
    }
}

/// What follows `prefix` in `path`, without the separator; `None` unless the prefix ends at a separator.
pub(crate) fn strip_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn root_of(clean: &str, custom_roots: &[String]) -> Option<VirtualRoot> {
    let fixed = [
        (WORKSPACE, VirtualRoot::Workspace),
        (UPLOADS, VirtualRoot::Uploads),
        (OUTPUTS, VirtualRoot::Outputs),
        (SKILLS, VirtualRoot::Skills),
        (ACP_WORKSPACE, VirtualRoot::AcpWorkspace),
    ];
    if clean == USER_DATA {
        return Some(VirtualRoot::UserData);
    }
    let found = fixed.into_iter().find(|(prefix, _)| strip_prefix(clean, prefix).is_some()).map(|(_, root)| root);
    found.or_else(|| custom_roots.iter().any(|root| strip_prefix(clean, root).is_some()).then_some(VirtualRoot::Custom))
}

fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.replace('\0', "\\0")
}

#[cfg(test)]
mod tests;
