//! The last tier: no namespaces, landlock and the system call filter only, where the configuration accepts it.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deerflow_sandbox::{
    ExecOutput, ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider, Tier, VirtualPath,
};
use tokio_util::sync::CancellationToken;

use crate::support::{config, is_root, launcher, processes_with};

/// A provider that has nothing better, and one thread.
struct Plain {
    dir: tempfile::TempDir,
    provider: IsolatedProvider,
    sandbox: Arc<dyn Sandbox>,
}

fn plain_launcher() -> Launcher {
    Launcher { bwrap: Some("/nonexistent".into()), namespaces: false, ..launcher() }
}

/// The version of landlock here, as the kernel tells it.
fn version() -> i64 {
    // SAFETY: with this flag the call reads nothing and returns the version.
    #[expect(unsafe_code, reason = "no safe wrapper that reports the version")]
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, 1u32) };
    version.max(0)
}

impl Plain {
    async fn new() -> Option<Self> {
        Self::with(SandboxConfig { accept_landlock: true, ..config() }).await
    }

    async fn with(config: SandboxConfig) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let provider = IsolatedProvider::start(&dir.path().join("data"), config, plain_launcher()).await.unwrap();
        if version() == 0 {
            let capability = provider.capability();
            assert!(!capability.bash && capability.reasons[2].contains("this kernel has none"), "{capability:?}");
            eprintln!("SKIPPED: this kernel has no landlock");
            return None;
        }
        let capability = provider.capability();
        assert_eq!((capability.tier, capability.bash), (Tier::Landlock, true), "{capability:?}");
        let sandbox = provider.acquire("alice", "t1").await.unwrap();
        Some(Self { dir, provider, sandbox })
    }

    fn workspace(&self) -> PathBuf {
        self.dir.path().join("data/users/alice/threads/t1/user-data/workspace")
    }

    async fn run(&self, command: &str) -> ExecOutput {
        self.sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap()
    }

    async fn ok(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.success(), "{command}: {output:?}");
        output.stdout
    }

    async fn python(&self, program: &str) -> String {
        std::fs::write(self.workspace().join("program.py"), program).unwrap();
        std::fs::set_permissions(self.workspace().join("program.py"), PermissionsExt::from_mode(0o644)).unwrap();
        self.ok("python3 program.py").await
    }
}

#[tokio::test]
async fn it_must_be_accepted_and_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let provider = IsolatedProvider::start(dir.path(), config(), plain_launcher()).await.unwrap();
    let capability = provider.capability();
    assert_eq!((capability.tier, capability.bash), (Tier::None, false));
    assert!(capability.reasons[2].contains("landlock: ") && capability.reasons[2].contains("accept_landlock"));
    let Some(rig) = Plain::new().await else { return };
    let reasons = rig.provider.capability().reasons.join("\n");
    assert!(reasons.contains("no process, network or mount namespace") && reasons.contains("no network"), "{reasons}");
    assert_eq!(reasons.contains("cannot hold signals"), version() < 6, "{reasons}");
}

#[tokio::test]
async fn commands_work_with_the_same_paths() {
    let Some(rig) = Plain::new().await else { return };
    assert_eq!(rig.ok("pwd; echo hi > a; cat /mnt/user-data/workspace/a").await, "/mnt/user-data/workspace\nhi\n");
    assert_eq!(rig.ok("mv a /mnt/user-data/outputs/b; ls /mnt/user-data /mnt/user-data/outputs").await, {
        "/mnt/user-data:\noutputs\nuploads\nworkspace\n\n/mnt/user-data/outputs:\nb\n"
    });
    assert_eq!(rig.ok("echo 1 > ~/k; echo 2 > /tmp/k; cat $HOME/k $TMPDIR/k; echo $HOME $TMPDIR").await, {
        "1\n2\n/home/agent /tmp\n"
    });
    let output = rig.run("echo out; echo err >&2; exit 7").await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.exit_code), ("out\n", "err\n", Some(7)));
    assert_eq!(rig.run("kill -TERM $$").await.signal, Some(15));
    assert_eq!(rig.run("cat; read x; echo \"<$x>\"").await.stdout, "<>\n");
    assert_eq!(rig.ok("yes | head -n 1; echo x > /dev/null; diff <(echo a) <(echo a) && echo same").await, "y\nsame\n");
    let python = "import threading, subprocess, os\n\
        t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n\
        print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())\n";
    assert_eq!(rig.python(python).await, "thread\nchild\n");
    let path = VirtualPath::parse("/mnt/user-data/outputs/b").unwrap();
    assert_eq!(rig.sandbox.read_text(&path).await.unwrap().text, "hi\n");
}

#[tokio::test]
async fn nothing_outside_can_be_read_or_written_not_even_through_links() {
    let Some(rig) = Plain::new().await else { return };
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "hidden").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o666)).unwrap();
    let (dir, secret_path) = (outside.path().display(), secret.display());
    // The thread's own `/tmp` is meant by `/tmp`: this must name the host's.
    let host = |path: &str| path.replacen("/tmp/", "//tmp/", 1);
    let (dir, file) = (host(&dir.to_string()), host(&secret_path.to_string()));
    for command in [
        format!("cat {file}"),
        format!("ls {dir}"),
        format!("echo x > {file}"),
        format!("echo x >> {file}"),
        format!("touch {dir}/new"),
        format!("mkdir {dir}/new"),
        format!("rm {file}"),
        format!("mv {file} {dir}/moved"),
        format!("ln {file} hard"),
        format!("ln -s {file} soft; cat soft"),
        format!("ln -s {file} soft2; echo x > soft2"),
        format!("python3 -c 'import os; os.truncate(\"{file}\", 0)'"),
        "cat /etc/shadow".to_owned(),
        "ls /".to_owned(),
        "ls /root /home".to_owned(),
        "cat ../../../../t2/user-data/workspace/s".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        "cat /proc/$PPID/mem".to_owned(),
        "ls /proc/$PPID/root/".to_owned(),
        format!("cat /proc/{}/environ", std::process::id()),
        "echo x > /proc/sys/kernel/core_pattern".to_owned(),
    ] {
        let output = rig.run(&command).await;
        assert!(!output.success(), "{command}: {output:?}");
        assert!(!output.stdout.contains("hidden"), "{command}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "hidden");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    // Another thread of the same user.
    let other = rig.provider.acquire("alice", "t2").await.unwrap();
    other.execute(ExecRequest::new("echo theirs > s"), CancellationToken::new()).await.unwrap();
    assert!(!rig.run("cat ../../../t2/user-data/workspace/s").await.success());
}

#[tokio::test]
async fn there_is_no_network_and_no_socket_of_the_host() {
    let Some(rig) = Plain::new().await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = format!(
        "import socket\n\
        def t(f):\n\
        \x20   try: f(); return 'done'\n\
        \x20   except OSError as e: return 'refused'\n\
        print(t(lambda: socket.create_connection(('127.0.0.1', {port}), 2)), t(lambda: socket.create_server(('127.0.0.1', 0))),\n\
        \x20   t(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)), t(lambda: socket.socket(socket.AF_UNIX)),\n\
        \x20   t(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)), t(lambda: socket.socket(socket.AF_INET, 1, 262)),\n\
        \x20   t(lambda: socket.socketpair()))\n"
    );
    assert_eq!(rig.python(&program).await, "refused refused refused refused refused refused done\n");
}

#[tokio::test]
async fn privileges_are_gone_for_good() {
    let Some(rig) = Plain::new().await else { return };
    let status = rig.ok("cat /proc/self/status").await;
    for line in ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let uid = if is_root() { config().uid } else { nix::unistd::geteuid().as_raw() };
    assert_eq!(rig.ok("cp /usr/bin/id . && chmod u+s,g+s id && ./id -u").await, format!("{uid}\n"));
    for command in [
        "su -c id",
        "sudo -n id",
        "unshare -U true",
        "mount -t tmpfs none /mnt",
        "python3 -c 'import resource; resource.prlimit(1, 7)'",
    ] {
        assert!(!rig.run(command).await.success(), "{command}");
    }
    let seen = rig.ok("env").await;
    assert!(seen.contains("HOME=/home/agent") && !seen.contains("CARGO"), "{seen}");
    let fds = "import os\nfor f in range(3, 64):\n p = f'/proc/{os.getpid()}/fd/{f}'\n if os.path.lexists(p): print(f, os.readlink(p))\n";
    assert!(!rig.python(fds).await.contains("socket"));
}

#[tokio::test]
async fn other_processes_cannot_be_signalled() {
    let Some(rig) = Plain::new().await else { return };
    if version() < 6 {
        eprintln!("SKIPPED: landlock {} does not hold signals", version());
        return;
    }
    let mut bystander = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let id = bystander.id();
    assert!(!rig.run(&format!("kill -KILL {id}")).await.success());
    // All that it may signal, and the process that watches it.
    let output = rig.run("trap '' TERM; kill -TERM -1; kill -KILL $PPID; echo alive").await;
    assert_eq!((output.stdout.as_str(), output.exit_code), ("alive\n", Some(0)), "{output:?}");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn everything_a_command_started_dies_with_it() {
    let Some(rig) = Plain::new().await else { return };
    let mark = format!("76{:08}", std::process::id());
    let tree = format!(
        "setsid sleep 1000{mark} & (setsid setsid sleep 2000{mark} &) ; nohup sleep 3000{mark} >/dev/null 2>&1 &"
    );
    let output = rig.run(&format!("echo A; {tree} sleep 0.1; echo B")).await;
    assert_eq!(output.stdout, "A\nB\n");
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    let request = ExecRequest {
        timeout: Some(Duration::from_millis(700)),
        ..ExecRequest::new(format!("{tree} sleep 4000{mark}"))
    };
    let output = rig.sandbox.execute(request, CancellationToken::new()).await.unwrap();
    assert!(output.timed_out, "{output:?}");
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    // A command that nobody waits for any more.
    {
        let command = format!("{tree} touch ready; sleep 4000{mark}");
        let run = rig.sandbox.execute(ExecRequest::new(command), CancellationToken::new());
        let begun = async {
            while !rig.workspace().join("ready").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = run => panic!("it should not end"),
            () = begun => {}
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !processes_with(&mark).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes_with(&mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn limits_hold() {
    let Some(rig) =
        Plain::with(SandboxConfig { accept_landlock: true, memory_mb: 200, file_size_mb: 2, ..config() }).await
    else {
        return;
    };
    let program = "try: x = bytearray(300 << 20); print('got it')\nexcept MemoryError: print('refused')\n";
    assert_ne!(rig.run(&format!("python3 -c '{}'", program.replace('\'', "\""))).await.stdout, "got it\n");
    assert!(!rig.run("head -c 5000000 /dev/zero > f").await.success());
    assert_eq!(rig.ok("ulimit -c; ulimit -Hn").await, "0\n1024\n");
}
