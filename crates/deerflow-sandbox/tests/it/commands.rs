//! What a command is given, and what comes back.

use std::time::{Duration, Instant};

use deerflow_sandbox::{
    ExecRequest, Expect, IsolatedProvider, Launcher, Replacement, SandboxError, SandboxProvider, VirtualPath,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Rig, config, is_root, launcher, pids_with};

#[tokio::test]
async fn a_command_runs_in_the_workspace_as_an_ordinary_user() {
    let rig = Rig::new().await;
    assert_eq!(
        rig.ok("pwd; id -u; id -g; whoami; hostname").await,
        "/mnt/user-data/workspace\n1000\n1000\nagent\nsandbox\n"
    );
    assert_eq!(rig.ok("echo hi > a && cat a && ls /mnt/user-data").await, "hi\noutputs\nuploads\nworkspace\n");
    assert_eq!(rig.ok("mv a ../outputs/b && ln ../outputs/b c && cat c").await, "hi\n");
}

#[tokio::test]
async fn exit_codes_signals_and_both_streams_are_told_apart() {
    let rig = Rig::new().await;
    let output = rig.run("echo out; echo err >&2; exit 7").await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.exit_code), ("out\n", "err\n", Some(7)));
    let output = rig.run("kill -TERM $$").await;
    assert_eq!((output.exit_code, output.signal), (None, Some(15)));
    assert_eq!(rig.run("no-such-program").await.exit_code, Some(127));
}

#[tokio::test]
async fn br_109_a_command_that_reads_stdin_returns_at_once() {
    let rig = Rig::new().await;
    let output = rig.run("cat; read x; echo \"<$x>\"").await;
    assert_eq!((output.stdout.as_str(), output.timed_out), ("<>\n", false));
}

#[tokio::test]
async fn br_106_a_background_process_does_not_hold_the_turn() {
    let rig = Rig::new().await;
    let started = Instant::now();
    let output = rig.run("echo A && sleep 300 & echo B; wait -n 2>/dev/null & sleep 0.2; echo C").await;
    assert!(
        output.stdout.contains("A\n") && output.stdout.contains("B\n") && output.stdout.contains("C\n"),
        "{output:?}"
    );
    assert!(!output.timed_out && started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn home_and_tmp_persist_and_are_not_artifacts() {
    let rig = Rig::new().await;
    rig.ok("echo 1 > ~/kept; echo 2 > /tmp/kept; echo 3 > /var/tmp/other").await;
    assert_eq!(rig.ok("cat ~/kept /tmp/kept /tmp/other; echo $HOME $TMPDIR").await, "1\n2\n3\n/home/agent /tmp\n");
    assert!(!rig.user_data().join("kept").exists());
}

#[tokio::test]
async fn ordinary_programs_work() {
    let rig = Rig::new().await;
    assert_eq!(
        rig.ok("yes | head -n 2; seq 3 | sort -r | tr '\\n' ' '; diff <(echo a) <(echo a) && echo same").await,
        "y\ny\n3 2 1 same\n"
    );
    assert_eq!(rig.ok("printf '#!/bin/sh\\necho ran\\n' > s.sh; chmod +x s.sh; ./s.sh").await, "ran\n");
    let python = "import threading, subprocess, multiprocessing\n\
        t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n\
        print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip(), flush=True)\n\
        with multiprocessing.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))\n";
    assert_eq!(rig.python(python).await, "thread\nchild\n3\n");
    assert_eq!(rig.ok("echo x > /dev/null; head -c 3 /dev/zero | wc -c; test -c /dev/tty; python3 -c 'import pty; print(pty.openpty()[0] > 0)'").await, "3\nTrue\n");
}

#[tokio::test]
async fn the_environment_can_be_given_per_command() {
    let rig = Rig::new().await;
    let request = ExecRequest {
        env: [("GH_TOKEN".to_owned(), "a b'c".to_owned())].into(),
        ..ExecRequest::new("echo \"$GH_TOKEN\"")
    };
    let output = rig.sandbox.execute(request, CancellationToken::new()).await.unwrap();
    assert_eq!(output.stdout, "a b'c\n");
    let request = ExecRequest { env: [("A-B".to_owned(), String::new())].into(), ..ExecRequest::new("true") };
    let error = rig.sandbox.execute(request, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, SandboxError::InvalidEnv { .. }), "{error:?}");
}

#[tokio::test]
async fn the_working_directory_can_be_given() {
    let rig = Rig::new().await;
    let request = ExecRequest { cwd: Some(VirtualPath::outputs()), ..ExecRequest::new("pwd") };
    assert_eq!(
        rig.sandbox.execute(request, CancellationToken::new()).await.unwrap().stdout,
        "/mnt/user-data/outputs\n"
    );
}

#[tokio::test]
async fn output_that_is_not_utf8_and_output_that_is_too_long_come_back_as_text() {
    let rig = Rig::with(deerflow_sandbox::SandboxConfig { capture_kb: 4, ..config() }).await;
    assert_eq!(rig.ok("printf 'a\\377b'").await, "a\u{fffd}b");
    let output = rig.run("head -c 500000 /dev/zero | tr '\\0' x; echo; echo 'error: it failed'; exit 1").await;
    assert_eq!(output.exit_code, Some(1));
    assert!(output.stdout.ends_with("error: it failed\n"), "{}", output.stdout.len());
    assert!(output.stdout.len() < 5000);
    assert_eq!(output.stdout_cut.unwrap().total_bytes, 500_018);
}

#[tokio::test]
async fn a_command_too_long_for_the_kernel_is_refused_clearly() {
    let rig = Rig::new().await;
    let error = rig.sandbox.execute(ExecRequest::new("#".repeat(200_000)), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    let long = format!("echo {} | wc -c", "x".repeat(100_000));
    assert_eq!(rig.ok(&long).await, "100001\n");
}

#[tokio::test]
async fn br_092_files_of_the_server_and_of_the_sandbox_can_be_changed_by_both() {
    let rig = Rig::new().await;
    let path = |text: &str| VirtualPath::parse(text).unwrap();
    let sandbox = &rig.sandbox;
    sandbox.write_text(&path("/mnt/user-data/uploads/new/dir/a.txt"), "server\n", Expect::Any).await.unwrap();
    assert_eq!(
        rig.ok("cd /mnt/user-data/uploads/new/dir; echo more >> a.txt; cat a.txt; touch b; rm b").await,
        "server\nmore\n"
    );
    rig.ok("umask 077; mkdir -p made; echo theirs > made/f; chmod 640 made/f").await;
    assert_eq!(sandbox.read_text(&path("made/f")).await.unwrap().text, "theirs\n");
    sandbox.replace_text(&path("made/f"), Replacement::one("theirs", "ours")).await.unwrap();
    sandbox.append(&path("made/f"), "end\n").await.unwrap();
    assert_eq!(rig.ok("cat made/f; echo x >> made/f; stat -c '%a %u' made/f").await, "ours\nend\n640 1000\n");
    if is_root() {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(rig.user_data().join("uploads/new/dir/a.txt")).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (config().uid, 0o600));
    }
}

#[tokio::test]
async fn directories_made_before_by_the_server_alone_can_be_used_by_commands() {
    let rig = Rig::new().await;
    let base = rig.dir.path().join("private/data");
    deerflow_sandbox::ThreadPaths::new(&base, "bob", "t9").unwrap().ensure().unwrap();
    let sandbox = rig.provider.acquire("bob", "t9").await.unwrap();
    let files = sandbox.files().unwrap();
    files.write_stream(&VirtualPath::parse("/mnt/user-data/uploads/u").unwrap(), &mut b"up".as_slice(), 10).unwrap();
    let command = ExecRequest::new("cat /mnt/user-data/uploads/u; echo x > w && echo y >> ../uploads/u && echo ok");
    assert_eq!(sandbox.execute(command, CancellationToken::new()).await.unwrap().stdout, "upok\n");
}

#[tokio::test]
async fn skills_and_custom_mounts_are_seen_where_they_belong() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ro", "rw"] {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("f"), name).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let mount = |name: &str, read_only| deerflow_sandbox::MountConfig {
        host_path: dir.path().join(name),
        container_path: format!("/mnt/extra/{name}"),
        read_only,
    };
    let rig =
        Rig::with(deerflow_sandbox::SandboxConfig { mounts: vec![mount("ro", true), mount("rw", false)], ..config() })
            .await;
    let skill = rig.dir.path().join("private/data/skills_view/public/pdf");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "how").unwrap();
    assert_eq!(rig.ok("cat /mnt/skills/public/pdf/SKILL.md /mnt/extra/ro/f /mnt/extra/rw/f").await, "howrorw");
    rig.ok("echo new > /mnt/extra/rw/g").await;
    assert_eq!(std::fs::read_to_string(dir.path().join("rw/g")).unwrap(), "new\n");
    for target in ["/mnt/extra/ro/f", "/mnt/extra/ro/new", "/mnt/skills/public/pdf/SKILL.md", "/mnt/skills/public/new"]
    {
        assert!(!rig.run(&format!("echo x > {target}")).await.success(), "{target}");
    }
    let path = rig.sandbox.parse_path("/mnt/extra/rw/g").unwrap();
    assert_eq!(rig.sandbox.read_text(&path).await.unwrap().text, "new\n");
    let path = rig.sandbox.parse_path("/mnt/extra/ro/f").unwrap();
    assert!(matches!(rig.sandbox.write_text(&path, "x", Expect::Any).await, Err(SandboxError::ReadOnly { .. })));
}

#[tokio::test]
async fn threads_do_not_see_each_other() {
    let rig = Rig::new().await;
    rig.ok("echo secret > s; echo secret > ~/s; echo secret > /tmp/s").await;
    let other = rig.provider.acquire("alice", "t2").await.unwrap();
    let command = ExecRequest::new("ls -A . ~ /tmp | grep -v ':$' | grep -c .");
    assert_eq!(other.execute(command, CancellationToken::new()).await.unwrap().stdout, "0\n");
    assert!(rig.provider.acquire("alice", "../t1").await.is_err());
}

#[tokio::test]
async fn the_launcher_is_started_again_when_it_dies() {
    // A launcher of its own name, so that no other test's is hit.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(format!("launcher-{}", std::process::id()));
    std::fs::copy(launcher().program, &program).unwrap();
    let base = dir.path().join("data");
    let provider = IsolatedProvider::start(&base, config(), Launcher::program(&program)).await.unwrap();
    assert!(provider.capability().bash, "{:?}", provider.capability());
    let sandbox = provider.acquire("alice", "t1").await.unwrap();
    // What it makes ahead has its name too.
    let running = || pids_with(program.to_str().unwrap());
    let own = format!("PPid:\t{}\n", std::process::id());
    let status = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pids: Vec<i32> = running().into_iter().filter(|pid| status(pid).contains(&own)).collect();
    assert_eq!(pids.len(), 1, "one launcher");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pids[0]), nix::sys::signal::Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !running().is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let output = sandbox.execute(ExecRequest::new("echo again"), CancellationToken::new()).await.unwrap();
    assert_eq!(output.stdout, "again\n", "{output:?}");
}
