//! The server's side of the `landlock` tier: one watching process for each command.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::Launcher;
use super::running::Running;
use crate::SandboxError;
use crate::cgroup::Cgroups;
use crate::launcher::landlock_version;
use crate::protocol::{Job, PLAIN_ARG};

/// Versions of landlock from which on something is held.
const MOVES: i64 = 2;
const SIGNALS: i64 = 6;

/// Runs commands without namespaces.
pub(super) struct PlainLauncher {
    launcher: Launcher,
    /// The user to become, when the server is root.
    owner: Option<u32>,
    version: i64,
    pub(super) cgroups: Option<Arc<Cgroups>>,
}

impl PlainLauncher {
    /// If the kernel has landlock.
    pub(super) fn find(launcher: &Launcher, owner: Option<u32>) -> Result<Self, SandboxError> {
        match landlock_version() {
            0 => Err(SandboxError::Launch {
                step: "landlock".to_owned(),
                message: "this kernel has none, or it is switched off".to_owned(),
            }),
            version => Ok(Self { launcher: launcher.clone(), owner, version, cgroups: None }),
        }
    }

    /// What this tier does not give.
    pub(super) fn lacks(&self) -> Vec<String> {
        let whose = if self.owner.is_some() { "other commands" } else { "the server and all else of its user" };
        let mut lacks = vec![
            "landlock: no process, network or mount namespace: names, sizes and command lines of the host's files and processes can be seen, contents cannot".to_owned(),
            "landlock: no network, not even loopback within a command".to_owned(),
            format!("landlock: modes, owners and times of files of {whose} can be changed, contents cannot"),
        ];
        if self.version < SIGNALS {
            lacks.push(format!(
                "landlock {} cannot hold signals: a command can end processes of {whose}, and evade being ended",
                self.version
            ));
        }
        if self.version < MOVES {
            lacks.push("landlock 1: files cannot be moved from one directory to another".to_owned());
        }
        lacks
    }

    /// Starts the watching process and hands it the job. It ends when its end of the conversation closes, with all that the
    /// command started.
    pub(super) async fn start(
        &self,
        job: &Job,
        cgroup: Option<&OwnedFd>,
        capture: u64,
    ) -> Result<(Running, Child), SandboxError> {
        let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
        let (ours, theirs) = StdUnixStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let child = Command::new(&self.launcher.program)
            .args(&self.launcher.args)
            .arg(PLAIN_ARG)
            .args(self.owner.map(|uid| uid.to_string()))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system)?;
        let control = UnixStream::from_std(ours).map_err(system)?;
        Ok((Running::hand_over(control, job, cgroup, capture).await?, child))
    }
}
