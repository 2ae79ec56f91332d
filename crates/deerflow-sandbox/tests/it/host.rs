//! The `host` provider: the same files, no boundary.

use std::time::{Duration, Instant};

use deerflow_sandbox::{
    ExecOutput, ExecRequest, HostProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider, Tier, VirtualPath,
    create_provider,
};
use tokio_util::sync::CancellationToken;

use crate::support::{config, is_root, launcher, processes_with};

async fn rig(base: &std::path::Path) -> std::sync::Arc<dyn Sandbox> {
    HostProvider::new(base, config()).unwrap().acquire("alice", "t1").await.unwrap()
}

async fn run(sandbox: &dyn Sandbox, command: &str) -> ExecOutput {
    sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn virtual_paths_work_in_commands_and_host_paths_are_masked() {
    let base = tempfile::tempdir().unwrap();
    let sandbox = rig(base.path()).await;
    let output =
        run(&*sandbox, "pwd; echo hi > /mnt/user-data/outputs/a; cat /mnt/user-data/outputs/a; ls /mnt/user-data/nope")
            .await;
    assert_eq!(output.stdout, "/mnt/user-data/workspace\nhi\n");
    assert!(output.stderr.contains("/mnt/user-data/nope") && !output.stderr.contains("users/alice"), "{output:?}");
    let path = VirtualPath::parse("/mnt/user-data/outputs/a").unwrap();
    assert_eq!(sandbox.read_text(&path).await.unwrap().text, "hi\n");
    let output = run(&*sandbox, "env").await.stdout;
    assert!(!output.contains("CARGO"), "{output}");
}

#[tokio::test]
async fn background_processes_timeouts_and_cancellation_end_the_group() {
    let base = tempfile::tempdir().unwrap();
    let sandbox = rig(base.path()).await;
    let mark = format!("79{:08}", std::process::id());
    let started = Instant::now();
    let output = run(&*sandbox, &format!("echo A && sleep 3000{mark} & echo B")).await;
    assert!(output.stdout.contains("B\n") && output.success(), "{output:?}");
    assert!(started.elapsed() < Duration::from_secs(30));
    let timeout = Some(Duration::from_millis(300));
    let request = ExecRequest { timeout, ..ExecRequest::new(format!("echo C; sleep 3000{mark}; echo D")) };
    let output = sandbox.execute(request, CancellationToken::new()).await.unwrap();
    assert_eq!((output.timed_out, output.stdout.as_str()), (true, "C\n"));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let output = sandbox.execute(ExecRequest::new(format!("sleep 3000{mark}")), cancel).await.unwrap();
    assert!(output.cancelled);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes_with(&mark).is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_host_provider_must_be_asked_for_by_name() {
    let base = tempfile::tempdir().unwrap();
    let named = SandboxConfig { provider: "host".into(), ..config() };
    let provider = create_provider(base.path(), named, launcher()).await.unwrap();
    assert_eq!((provider.name(), provider.capability().tier), ("host", Tier::Host));
    let allowed = SandboxConfig { allow_host_bash: true, ..config() };
    let provider = create_provider(base.path(), allowed, launcher()).await.unwrap();
    assert_eq!(provider.name(), "isolated");
}

#[tokio::test]
async fn without_a_launcher_commands_are_withdrawn_with_the_reason_and_files_work() {
    let base = tempfile::tempdir().unwrap();
    let broken = Launcher { bwrap: Some("/nonexistent".into()), ..Launcher::program("/bin/true") };
    let provider = create_provider(base.path(), config(), broken).await.unwrap();
    let capability = provider.capability();
    assert_eq!((capability.tier, capability.bash), (Tier::None, false));
    assert!(
        capability.reasons[0].starts_with("namespaces: ") && capability.reasons[0].contains("launcher"),
        "{capability:?}"
    );
    let second = if is_root() { "not used as root" } else { "not installed" };
    assert!(capability.reasons[1].contains(second), "{capability:?}");
    let sandbox = provider.acquire("alice", "t1").await.unwrap();
    let error = sandbox.execute(ExecRequest::new("true"), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("launcher"), "{error}");
    let path = VirtualPath::parse("a").unwrap();
    sandbox.write_text(&path, "x", deerflow_sandbox::Expect::Any).await.unwrap();
    assert_eq!(sandbox.read_text(&path).await.unwrap().text, "x");
}
