//! Namespaces that wait for the next command of their thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deerflow_sandbox::{ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider, ThreadPaths};
use tokio_util::sync::CancellationToken;

use crate::support::{Rig, config, launcher, pids_with};

/// Numbers of the namespaces that a command is in.
const NAMESPACES: &str = "readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/ipc";

async fn in_thread(rig: &Rig, user: &str, thread: &str, command: &str) -> String {
    let sandbox = rig.provider.acquire(user, thread).await.unwrap();
    sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap().stdout
}

#[tokio::test]
async fn the_next_command_of_a_thread_finds_its_namespaces_and_no_other_threads() {
    let rig = Rig::new().await;
    let first = rig.ok(NAMESPACES).await;
    assert_eq!(first.lines().count(), 4, "{first}");
    let bobs = in_thread(&rig, "bob", "t1", NAMESPACES).await;
    let other = in_thread(&rig, "alice", "t2", NAMESPACES).await;
    let at = |text: &str, line: usize| text.lines().nth(line).unwrap().to_owned();
    for line in 0..4 {
        assert!(at(&first, line) != at(&bobs, line) && at(&first, line) != at(&other, line), "{first}{bobs}{other}");
    }
    assert_eq!(rig.ok(NAMESPACES).await, first);
    assert_eq!(in_thread(&rig, "bob", "t1", NAMESPACES).await, bobs);
    // What fails and what exits with a signal leaves them as usable.
    rig.run("exit 3").await;
    rig.run("kill -9 $$").await;
    assert_eq!(rig.ok(NAMESPACES).await, first);
}

#[tokio::test]
async fn nothing_of_a_command_is_left_to_the_next_but_files() {
    let rig = Rig::new().await;
    let first = rig.ok(NAMESPACES).await;
    rig.ok("export A=1; cd /tmp; umask 0; ulimit -n 100; trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 &); hostname").await;
    assert_eq!(rig.ok("echo \"$A\" $(pwd) $(umask) $(ulimit -n)").await, " /mnt/user-data/workspace 0022 1024\n");
    assert_eq!(rig.ok("ls /proc | grep -c '^[0-9]'; trap").await, "4\n", "pid 1, the shell, ls and grep");
    assert_eq!(rig.ok(NAMESPACES).await, first);
    // Shared memory outlives processes: the namespaces go with it.
    rig.ok("echo x > /dev/shm/left").await;
    assert_eq!(rig.ok("ls /dev/shm | wc -l").await, "0\n");
    let second = rig.ok(NAMESPACES).await;
    assert_ne!(second, first);
    let program = "import ctypes\nprint(ctypes.CDLL(None).shmget(0x1234, 4096, 0o1600) >= 0)\n";
    assert_eq!(rig.python(program).await, "True\n");
    assert_eq!(rig.ok("tail -n +2 /proc/sysvipc/shm | wc -l").await, "0\n");
    assert_ne!(rig.ok(NAMESPACES).await, second);
}

#[tokio::test]
async fn what_ends_early_takes_its_namespaces_along() {
    let rig = Rig::new().await;
    let first = rig.ok(NAMESPACES).await;
    let request = ExecRequest { timeout: Some(Duration::from_millis(300)), ..ExecRequest::new("sleep 100") };
    assert!(rig.sandbox.execute(request, CancellationToken::new()).await.unwrap().timed_out);
    assert_ne!(rig.ok(NAMESPACES).await, first);
}

#[tokio::test]
async fn directories_that_are_replaced_are_seen() {
    let rig = Rig::new().await;
    let skills = rig.dir.path().join("private/data/skills_view/public");
    assert_eq!(rig.ok("ls /mnt/skills/public").await, "");
    for name in ["one", "two"] {
        let next = skills.with_file_name("next");
        std::fs::create_dir_all(next.join(name)).unwrap();
        let _ = std::fs::remove_dir_all(&skills);
        std::fs::rename(&next, &skills).unwrap();
        assert_eq!(rig.ok("ls /mnt/skills/public").await, format!("{name}\n"));
    }
}

#[tokio::test]
async fn they_are_not_kept_when_that_is_not_wanted_and_go_with_their_thread() {
    let rig = Rig::with(SandboxConfig { keep_seconds: 0, ..config() }).await;
    assert_ne!(rig.ok(NAMESPACES).await, rig.ok(NAMESPACES).await);
    // A launcher of its own name, so that its processes can be told from others'.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(format!("launcher-kept-{}", std::process::id()));
    std::fs::copy(launcher().program, &program).unwrap();
    let base = dir.path().join("data");
    let provider = IsolatedProvider::start(&base, config(), Launcher::program(&program)).await.unwrap();
    let sandbox: Arc<dyn Sandbox> = provider.acquire("alice", "t1").await.unwrap();
    let confined = || {
        let pids = pids_with(program.to_str().unwrap()).into_iter();
        // Of all with that name only those that serve a thread have the filter.
        let is =
            |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| s.contains("Seccomp:\t2"));
        pids.filter(is).count()
    };
    assert!(sandbox.execute(ExecRequest::new("true"), CancellationToken::new()).await.unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(20);
    while confined() != 1 {
        assert!(Instant::now() < deadline, "{} are kept", confined());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ThreadPaths::new(&base, "alice", "t1").unwrap().remove_all().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while confined() > 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The thread begins anew.
    drop(sandbox);
    let sandbox = provider.acquire("alice", "t1").await.unwrap();
    assert!(sandbox.execute(ExecRequest::new("true"), CancellationToken::new()).await.unwrap().success());
    drop((sandbox, provider));
    while !pids_with(program.to_str().unwrap()).is_empty() {
        assert!(Instant::now() < deadline, "all go with the server");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
