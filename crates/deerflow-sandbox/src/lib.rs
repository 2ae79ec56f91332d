//! The isolated computer: virtual paths, files, shell.
//!
//! Invariant: what a model asks for reaches the host only through a [`VirtualPath`], opened name by name beneath a directory
//! the server owns, or through a command confined by the kernel. No result and no error names a host path.
//!
//! - [`SandboxProvider`] and [`Sandbox`]: what the rest of the house uses.
//! - [`VirtualPath`], [`ThreadPaths`], [`ThreadFiles`]: paths and files.
//! - [`text`]: the one decoder for reading, searching and editing.

mod capability;
mod cgroup;
mod config;
mod copy_tree;
mod egress;
mod error;
mod exec;
mod files;
mod handle;
mod host;
mod isolated;
mod launcher;
mod local;
mod mask;
mod path;
mod protocol;
mod provider;
mod remove;
mod sandbox;
mod system;
pub mod text;
mod thread_paths;

pub use capability::{Capability, MemoryBy, MemoryLimit, Tier};
pub use config::{MountConfig, ProviderKind, SandboxConfig};
pub use egress::{NetworkAccess, NetworkConfig, NetworkTrouble, NetworkUse, is_public_address};
pub use error::SandboxError;
pub use files::{
    Access, DirEntry, EditOutcome, EntryKind, Expect, FileKind, FileStat, GlobOutcome, GrepMatch, GrepOutcome,
    GrepQuery, ListedEntry, Listing, MAX_TEXT_BYTES, Mount, MountTable, ThreadFiles, WriteOutcome,
};
pub use host::HostProvider;
pub use isolated::{IsolatedProvider, Launcher};
pub use launcher::{is_launcher_invocation, launcher_main};
pub use mask::PathMask;
pub use path::{ACP_WORKSPACE, OUTPUTS, SKILLS, UPLOADS, USER_DATA, VirtualPath, VirtualRoot, WORKSPACE};
pub use provider::create_provider;
pub use sandbox::{Cut, ExecOutput, ExecRequest, LimitHit, Replacement, Sandbox, SandboxProvider};
pub use text::{LineEnding, TextEncoding, TextFile};
pub use thread_paths::ThreadPaths;
