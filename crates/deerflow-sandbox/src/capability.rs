//! What the sandbox of this machine can do, said truthfully.

use serde::Serialize;

/// How commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Own launcher: namespaces, landlock, seccomp.
    Namespaces,
    /// The `bwrap` program.
    Bwrap,
    /// A plain process held by landlock and a system call filter; only if the configuration accepts it.
    Landlock,
    /// No boundary; asked for by name.
    Host,
    /// Commands are withdrawn.
    None,
}

impl Tier {
    /// Name for reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Host => "host",
            Self::None => "none",
        }
    }
}

/// The state of a provider, for `doctor`, `/health` and the assembly of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Tier in force.
    pub tier: Tier,
    /// Commands can be offered to the model.
    pub bash: bool,
    /// Why better tiers were refused, one line each; what is degraded.
    pub reasons: Vec<String>,
    /// What holds commands to their memory limit.
    pub memory: MemoryLimit,
}

/// What holds commands to their memory limit, and why not something better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// What it is.
    pub by: MemoryBy,
    /// Why it is not a cgroup; empty if it is.
    pub reason: String,
}

impl MemoryLimit {
    pub(crate) fn none(reason: &str) -> Self {
        Self { by: MemoryBy::None, reason: reason.to_owned() }
    }
}

/// A way to limit memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryBy {
    /// The kernel counts all memory of a sandbox (cgroup version 2).
    Cgroup,
    /// A resource limit for each process; the sum is looked at now and then where the tier can see it.
    Rlimits,
    /// There is no limit.
    None,
}

impl MemoryBy {
    /// Name for reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::None => "none",
        }
    }
}
