//! The `sandbox:` section of the configuration.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SandboxError;
use crate::egress::NetworkConfig;
use crate::path::{ACP_WORKSPACE, SKILLS, USER_DATA, strip_prefix};

/// Which computer the agent works on, and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxConfig {
    /// Provider: `isolated` (a real boundary, the default) or `host` (no boundary, for trusted use; must be asked for by
    /// name). The class paths of the original's local provider mean `isolated`.
    #[serde(rename = "use")]
    pub provider: String,
    /// Accepted for compatibility; commands of the isolated provider never run on the bare host, whatever it says.
    pub allow_host_bash: bool,
    /// Further host directories to show in the sandbox.
    pub mounts: Vec<MountConfig>,
    /// Characters of command output shown to the model; 0 is no limit.
    pub bash_output_max_chars: usize,
    /// Characters of a file shown to the model; 0 is no limit.
    pub read_file_output_max_chars: usize,
    /// Characters of a listing shown to the model; 0 is no limit.
    pub ls_output_max_chars: usize,
    /// Seconds a command may run.
    pub bash_command_timeout: u64,
    /// Environment of every command, in addition to the built-in minimum. Nothing else of the server's environment is
    /// passed on.
    pub environment: BTreeMap<String, String>,
    /// Network of commands: `off` (an own namespace in which only loopback works), or what they may reach through a proxy.
    pub network: NetworkConfig,
    /// Accept the `landlock` tier where the kernel refuses namespaces and `bwrap` is not there: commands are then plain
    /// processes without process, network or mount namespaces, held by landlock and a system call filter. Without it there
    /// are no commands on such a machine. They have no network at all there, so an allow-list is refused.
    pub accept_landlock: bool,
    /// When the server runs as root: the dedicated host user id under which commands run. Must not be 0.
    pub uid: u32,
    /// Memory limit in MiB, for each process and for the whole process tree of a command; 0 is no limit.
    pub memory_mb: u64,
    /// Processes and threads of a command; 0 is no limit.
    pub processes: u64,
    /// Largest file a command may write, in MiB; 0 is no limit.
    pub file_size_mb: u64,
    /// Disk space of a thread in MiB; a command that grows the thread beyond it is killed, and the
    /// next ones can only make room. 0 is no limit.
    pub disk_mb: u64,
    /// Free space in MiB to leave on the disk; a command or write that eats into it is stopped. 0 is no reserve.
    pub min_free_mb: u64,
    /// Bytes kept of each of stdout and stderr, in KiB: the first and the last half.
    pub capture_kb: u64,
    /// Seconds that a thread's namespaces wait for its next command once all processes of the last one are dead; 0 makes new
    /// ones for each command.
    pub keep_seconds: u64,
}

impl deerflow_config::Section for SandboxConfig {
    const KEY: &'static str = "sandbox";
    const RESTART_ONLY: bool = true;

    fn validate(&self, problems: &mut deerflow_config::Problems) {
        let network = deerflow_config::KeyPath::root().key("network");
        self.network.check(&network, problems);
        if let Err(SandboxError::Config { message }) = self.network_is_enforced() {
            problems.error(network, message, None);
        }
    }
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            provider: "isolated".to_owned(),
            allow_host_bash: false,
            mounts: Vec::new(),
            bash_output_max_chars: 20_000,
            read_file_output_max_chars: 50_000,
            ls_output_max_chars: 20_000,
            bash_command_timeout: 600,
            environment: BTreeMap::new(),
            network: NetworkConfig::Off,
            accept_landlock: false,
            uid: 64_534,
            memory_mb: 4096,
            processes: 512,
            file_size_mb: 2048,
            disk_mb: 10_240,
            min_free_mb: 512,
            capture_kb: 10 * 1024,
            keep_seconds: 30,
        }
    }
}

/// A host directory shown in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountConfig {
    /// Absolute path of an existing directory on the host.
    pub host_path: PathBuf,
    /// Absolute path in the sandbox, outside the built-in roots and the system.
    pub container_path: String,
    /// Commands and tools may only read it.
    #[serde(default)]
    pub read_only: bool,
}

/// A known provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// The isolated computer.
    Isolated,
    /// The bare host.
    Host,
}

impl SandboxConfig {
    /// Which provider `use` names.
    ///
    /// # Errors
    /// [`SandboxError::Config`] for an unknown name.
    pub fn provider_kind(&self) -> Result<ProviderKind, SandboxError> {
        match self.provider.as_str() {
            "isolated" | "deerflow.sandbox.local:LocalSandboxProvider" | "src.sandbox.local:LocalSandboxProvider" => {
                Ok(ProviderKind::Isolated)
            }
            "host" => Ok(ProviderKind::Host),
            other => Err(SandboxError::Config {
                message: format!("unknown sandbox.use '{other}'; use 'isolated' or 'host'"),
            }),
        }
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// [`SandboxError::Config`] naming the key.
    pub fn validate(&self) -> Result<(), SandboxError> {
        self.provider_kind()?;
        let bad = |message: String| Err(SandboxError::Config { message });
        if self.uid == 0 || self.uid == u32::MAX {
            return bad("sandbox.uid must be an unprivileged user id, not 0".to_owned());
        }
        if self.bash_command_timeout == 0 {
            return bad("sandbox.bash_command_timeout must be at least 1 second".to_owned());
        }
        if let Some((name, _)) = self.environment.iter().find(|(name, value)| !valid_env(name, value)) {
            return bad(format!("sandbox.environment: '{name}' is not a valid variable"));
        }
        self.network.allow_list()?;
        self.network_is_enforced()
    }

    /// The host's commands have the host's network: a list would only pretend.
    fn network_is_enforced(&self) -> Result<(), SandboxError> {
        match (self.provider_kind(), &self.network) {
            (Ok(ProviderKind::Host), NetworkConfig::Allow(_)) => Err(SandboxError::Config {
                message: "sandbox.network.allow cannot be kept with `use: host`, whose commands have the whole network of the \
                          host; hint: use `isolated`, or leave `network` out"
                    .to_owned(),
            }),
            (Ok(_) | Err(_), _) => Ok(()),
        }
    }

    /// Owner of the files that the isolated provider's commands work on: the dedicated user when this process is root,
    /// otherwise (`None`) this process's own user.
    #[must_use]
    pub fn file_owner(&self) -> Option<u32> {
        rustix::process::geteuid().is_root().then_some(self.uid)
    }

    /// The limit of a command that asks for none.
    #[must_use]
    pub fn command_timeout(&self) -> Duration {
        Duration::from_secs(self.bash_command_timeout.max(1))
    }

    /// The mounts that can be used; the others are logged and left out.
    pub(crate) fn usable_mounts(&self) -> Vec<MountConfig> {
        let mut usable: Vec<MountConfig> = Vec::new();
        for mount in &self.mounts {
            match mount_problem(mount) {
                Some(problem) => {
                    tracing::warn!(container_path = %mount.container_path, problem, "sandbox mount left out")
                }
                None => {
                    let mut mount = mount.clone();
                    mount.container_path = mount.container_path.trim_end_matches('/').to_owned();
                    usable.push(mount);
                }
            }
        }
        usable
    }
}

const SYSTEM: [&str; 15] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/tmp", "/usr",
];

fn mount_problem(mount: &MountConfig) -> Option<&'static str> {
    let path = mount.container_path.trim_end_matches('/');
    let plain = |path: &Path| path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !mount.host_path.is_absolute() || !plain(&mount.host_path) {
        return Some("host_path is not a clean absolute path");
    }
    if !mount.host_path.is_dir() {
        return Some("host_path is not an existing directory");
    }
    if !path.starts_with('/') || !plain(Path::new(path)) || path.contains(['\\', '\0']) || path.contains("//") {
        return Some("container_path is not a clean absolute path");
    }
    let reserved = [USER_DATA, ACP_WORKSPACE, SKILLS].iter().chain(SYSTEM.iter());
    for root in reserved {
        if strip_prefix(path, root).is_some() || strip_prefix(root, path).is_some() {
            return Some("container_path is inside or above a reserved path");
        }
    }
    None
}

/// True for a POSIX variable name and a value without NUL.
pub(crate) fn valid_env(name: &str, value: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_originals_local_provider_is_isolated_even_with_host_bash_allowed() {
        let config: SandboxConfig = serde_json::from_value(serde_json::json!({
            "use": "deerflow.sandbox.local:LocalSandboxProvider", "allow_host_bash": true, "replicas": 3
        }))
        .unwrap();
        assert_eq!(config.provider_kind().unwrap(), ProviderKind::Isolated);
        assert_eq!(SandboxConfig::default().provider_kind().unwrap(), ProviderKind::Isolated);
        let other = SandboxConfig { provider: "docker".into(), ..SandboxConfig::default() };
        assert!(other.validate().is_err());
    }

    #[test]
    fn a_network_mode_that_does_not_exist_is_rejected_not_ignored() {
        let read = |value| serde_json::from_value::<SandboxConfig>(serde_json::json!({"network": value}));
        assert!(read(serde_json::json!("allow-list")).is_err());
        assert!(read(serde_json::json!("off")).unwrap().validate().is_ok());
        let list = read(serde_json::json!({"allow": ["pypi.org"]})).unwrap();
        assert!(list.validate().is_ok());
        let host = SandboxConfig { provider: "host".into(), ..list }.validate().unwrap_err().to_string();
        assert!(host.contains("cannot be kept with `use: host`"), "{host}");
        let bad = read(serde_json::json!({"allow": ["10.0.0.5"]})).unwrap().validate().unwrap_err().to_string();
        assert!(bad.contains("write `10.0.0.5:8080`"), "{bad}");
    }

    #[test]
    fn uid_zero_is_refused() {
        assert!(SandboxConfig { uid: 0, ..SandboxConfig::default() }.validate().is_err());
    }

    #[test]
    fn mounts_over_reserved_places_are_left_out() {
        let mount = |container: &str| MountConfig {
            host_path: "/usr".into(),
            container_path: container.into(),
            read_only: true,
        };
        for bad in ["/mnt/user-data/x", "/mnt", "/", "/etc/x", "/proc", "relative", "/a/../b", "/mnt/skills/public"] {
            assert!(mount_problem(&mount(bad)).is_some(), "{bad}");
        }
        for good in ["/mnt/data", "/srv/data", "/mnt/skills-extra"] {
            assert_eq!(mount_problem(&mount(good)), None, "{good}");
        }
        let missing =
            MountConfig { host_path: "/no/such/dir".into(), container_path: "/mnt/data".into(), read_only: false };
        assert!(mount_problem(&missing).is_some());
    }
}
