//! The second tier, where `bwrap` is installed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use deerflow_sandbox::{ExecOutput, ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxProvider, Tier};
use tokio_util::sync::CancellationToken;

use crate::support::{config, is_root, processes_with};

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("DEERFLOW_TEST_BWRAP").map(PathBuf::from);
    let found = named.unwrap_or_else(|| "/usr/bin/bwrap".into());
    if !found.exists() {
        eprintln!("SKIPPED: bwrap is not installed (DEERFLOW_TEST_BWRAP names another place)");
        return None;
    }
    Some(found)
}

async fn run(sandbox: &dyn Sandbox, command: &str) -> ExecOutput {
    sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn bwrap_is_used_when_the_launcher_cannot_and_confines_too() {
    let Some(bwrap) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let launcher = Launcher { bwrap: Some(bwrap), ..Launcher::program("/bin/true") };
    let provider = IsolatedProvider::start(dir.path(), config(), launcher).await.unwrap();
    let capability = provider.capability();
    if is_root() {
        assert!(!capability.bash && capability.reasons[1].contains("not used as root"), "{capability:?}");
        return;
    }
    assert_eq!((capability.tier, capability.bash), (Tier::Bwrap, true), "{capability:?}");
    let sandbox = provider.acquire("alice", "t1").await.unwrap();
    let output = run(&*sandbox, "pwd; id -u; hostname; echo x > f; cat f; cat; exit 3").await;
    assert_eq!(
        (output.stdout.as_str(), output.exit_code),
        ("/mnt/user-data/workspace\n1000\nsandbox\nx\n", Some(3)),
        "{output:?}"
    );
    for command in [
        "test -e /etc/shadow",
        "echo x > /etc/x",
        "echo x > /x",
        "echo x > /proc/sys/kernel/core_pattern",
        "ls /root",
        "unshare -U true",
    ] {
        let denied = !run(&*sandbox, command).await.success();
        assert!(denied || command.starts_with("unshare"), "{command}");
    }
    assert_eq!(run(&*sandbox, "grep CapBnd /proc/self/status").await.stdout, "CapBnd:\t0000000000000000\n");
    let mark = format!("78{:08}", std::process::id());
    let output = run(&*sandbox, &format!("(setsid sleep 1000{mark} &) ; echo A; sleep 1000{mark} & echo B")).await;
    assert_eq!(output.stdout, "A\nB\n");
    let timeout = Some(Duration::from_millis(500));
    let request = ExecRequest { timeout, ..ExecRequest::new(format!("setsid sleep 1000{mark} & sleep 1000{mark}")) };
    assert!(sandbox.execute(request, CancellationToken::new()).await.unwrap().timed_out);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes_with(&mark).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes_with(&mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
