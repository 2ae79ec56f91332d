//! The second tier: the `bwrap` program, where the kernel lets it do what it refuses to our launcher.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::parking::Shown;
use crate::SandboxError;
use crate::egress::inside;
use crate::protocol::{INSIDE_HOME, INSIDE_ID, Job};
use crate::system;

const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];

/// Our own binary inside.
const INSIDE_HELPER: &str = "/run/open-network";

/// Runs inside, before the command: the limits, and a watcher that ends everything when the server's end of the input closes.
/// `$1` is the command, `$2`, `$3` and `$4` are KiB of memory, KiB of a file and processes, or `unlimited`.
const PRELUDE: &str = r#"
exec 3<&0 </dev/null
{ head -c 1 <&3 >/dev/null; kill -KILL -1; } >/dev/null 2>&1 &
exec 3<&-
ulimit -c 0
ulimit -d "$2" 2>/dev/null
if [ "$3" != unlimited ]; then ulimit -f "$3"; fi
ulimit -u "$4" 2>/dev/null
exec "$0" -c "$1"
"#;

/// How `bwrap` is called.
pub(super) struct Bwrap {
    program: PathBuf,
    /// Generated files of `/etc`.
    etc: PathBuf,
    /// Our own binary, where it is needed inside to open the network.
    helper: Option<PathBuf>,
}

impl Bwrap {
    /// The program, if it is there (never used as root), and the files it shows as `/etc`.
    /// With `helper`, commands have a proxy, whose socket that program of ours opens inside.
    pub(super) fn find(program: Option<&Path>, base: &Path, helper: Option<&Path>) -> Result<Self, SandboxError> {
        let program = match program {
            Some(program) => Some(program.to_owned()).filter(|program| program.is_file()),
            None => PLACES.into_iter().map(PathBuf::from).find(|program| program.is_file()),
        };
        let fail = |message: String| SandboxError::Launch { step: "bwrap".to_owned(), message };
        let program = program.ok_or_else(|| fail("not installed".to_owned()))?;
        let etc = base.join(".sandbox-etc");
        std::fs::create_dir_all(&etc).map_err(|error| SandboxError::system("preparing /etc", &error))?;
        for (name, text) in system::etc_generated() {
            std::fs::write(etc.join(name), text).map_err(|error| SandboxError::system("preparing /etc", &error))?;
        }
        // `/proc/self/exe` would be `bwrap` itself.
        let helper = helper
            .map(std::fs::canonicalize)
            .transpose()
            .map_err(|error| fail(format!("this program cannot be shown inside, for the network: {error}")))?;
        Ok(Self { program, etc, helper })
    }

    /// The command that runs a job. Its input is a pipe that this process holds: the child handle keeps it open.
    pub(super) fn command(&self, job: &Job, mounts: &[Shown]) -> Command {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        let id = INSIDE_ID.to_string();
        add(&["--unshare-all", "--uid", &id, "--gid", &id, "--hostname", "sandbox", "--cap-drop", "ALL"]);
        add(&["--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", INSIDE_HOME]);
        for name in system::TOP {
            let host = Path::new("/").join(name);
            match std::fs::read_link(&host) {
                Ok(target) => add(&["--symlink", &target.to_string_lossy(), &host.to_string_lossy()]),
                Err(_) => add(&["--ro-bind-try", &host.to_string_lossy(), &host.to_string_lossy()]),
            }
        }
        for (name, _) in system::etc_generated() {
            add(&["--ro-bind", &self.etc.join(name).to_string_lossy(), &format!("/etc/{name}")]);
        }
        for name in system::ETC_DIRS.iter().chain(&system::ETC_FILES) {
            add(&["--ro-bind-try", &format!("/etc/{name}"), &format!("/etc/{name}")]);
        }
        for shown in mounts {
            let flag = if shown.read_only { "--ro-bind" } else { "--bind" };
            add(&[flag, &shown.host.to_string_lossy(), &shown.target]);
        }
        if let Some(helper) = &self.helper {
            add(&["--ro-bind", &helper.to_string_lossy(), INSIDE_HELPER]);
        }
        add(&["--symlink", "/tmp", "/var/tmp", "--remount-ro", "/", "--chdir", &job.cwd, "--"]);
        let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
        let kib = |bytes: u64| if bytes == 0 { "unlimited".to_owned() } else { (bytes / 1024).to_string() };
        let processes =
            if job.limits.processes == 0 { "unlimited".to_owned() } else { job.limits.processes.to_string() };
        if self.helper.is_some() {
            add(&[INSIDE_HELPER, inside::LISTEN_ARG]);
        }
        add(&[shell, "-c", PRELUDE, shell, &job.command]);
        add(&[&kib(job.limits.memory_bytes), &kib(job.limits.file_size_bytes), &processes]);
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().envs(job.env.iter().cloned()).current_dir("/").stdin(Stdio::piped());
        command
    }
}
