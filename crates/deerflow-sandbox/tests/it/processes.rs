//! The whole process tree dies with its command, whatever ends it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deerflow_sandbox::ExecRequest;
use tokio_util::sync::CancellationToken;

use crate::support::{Rig, processes_with};

/// A mark that makes a test's processes recognisable from outside.
fn mark(name: u8) -> String {
    // Digits, so that it can be part of a number of seconds.
    format!("{name}{:08}", std::process::id())
}

/// A command that starts processes of every kind and then waits.
fn tree(mark: &str) -> String {
    format!(
        "setsid sleep 1000{mark} & nohup sleep 2000{mark} >/dev/null 2>&1 & (sleep 3000{mark} &) ; \
         python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n os.close(1); os.close(2)\n if os.fork()==0: time.sleep(10000)' {mark}; touch ready"
    )
}

fn none_left(mark: &str) {
    assert_eq!(processes_with(mark), Vec::<String>::new());
}

#[tokio::test]
async fn background_processes_die_when_the_shell_exits() {
    let rig = Rig::new().await;
    let mark = mark(70);
    let output = rig.run(&format!("{}; echo done", tree(&mark))).await;
    assert_eq!(output.stdout, "done\n");
    none_left(&mark);
}

#[tokio::test]
async fn a_timeout_kills_the_tree() {
    let rig = Rig::new().await;
    let mark = mark(71);
    let command = format!("echo begun; {}; sleep 4000{mark}", tree(&mark));
    let request = ExecRequest { timeout: Some(Duration::from_secs(2)), ..ExecRequest::new(command) };
    let output = rig.sandbox.execute(request, CancellationToken::new()).await.unwrap();
    assert!(output.timed_out && output.exit_code.is_none(), "{output:?}");
    assert_eq!(output.stdout, "begun\n");
    none_left(&mark);
}

#[tokio::test]
async fn a_cancellation_kills_the_tree() {
    let rig = Rig::new().await;
    let mark = mark(72);
    let cancel = CancellationToken::new();
    let command = format!("{}; trap '' TERM INT HUP; sleep 4000{mark}", tree(&mark));
    let run = rig.sandbox.execute(ExecRequest::new(command), cancel.clone());
    let stop = async {
        rig.wait_for("ready").await;
        assert!(!processes_with(&mark).is_empty());
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(run, stop);
    let output = output.unwrap();
    assert!(output.cancelled && !output.timed_out, "{output:?}");
    none_left(&mark);
}

#[tokio::test]
async fn a_dropped_command_dies() {
    let rig = Rig::new().await;
    let mark = mark(73);
    let command = format!("{}; sleep 4000{mark}", tree(&mark));
    {
        let run = rig.sandbox.execute(ExecRequest::new(command), CancellationToken::new());
        tokio::select! {
            _ = run => panic!("it should not end"),
            () = rig.wait_for("ready") => {}
        }
    }
    wait_until_gone(&mark).await;
}

/// Death follows at once, but nobody tells us when.
async fn wait_until_gone(mark: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !processes_with(mark).is_empty() {
        assert!(Instant::now() < deadline, "still there: {:?}", processes_with(mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Not a test by itself: the server that [`a_server_killed_outright_takes_its_commands_along`] kills.
#[tokio::test]
#[ignore = "run by another test"]
async fn server_to_be_killed() {
    let mark = std::env::var("DEERFLOW_TEST_MARK").unwrap();
    let rig = Rig::new().await;
    rig.run(&format!("{}; sleep 4000{mark}", tree(&mark))).await;
}

#[tokio::test]
async fn a_server_killed_outright_takes_its_commands_along() {
    let mark = mark(74);
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::server_to_be_killed", "--ignored", "--nocapture"])
        .env("DEERFLOW_TEST_MARK", &mark)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let sleeper = format!("sleep 4000{mark}");
    while !processes_with(&sleeper).iter().any(|line| line.starts_with("sleep ")) {
        assert!(Instant::now() < deadline && server.try_wait().unwrap().is_none(), "the command never ran");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.kill().unwrap();
    server.wait().unwrap();
    wait_until_gone(&mark).await;
}

#[tokio::test]
async fn many_commands_at_once_do_not_mix() {
    let rig = Rig::new().await;
    let runs =
        (0..24).map(|number| rig.run_owned(format!("echo {number}; sleep 0.05; echo {number} >&2; exit {number}")));
    let mut set = tokio::task::JoinSet::new();
    for (number, run) in runs.enumerate() {
        set.spawn(async move { (number, run.await) });
    }
    for (number, output) in set.join_all().await {
        let line = format!("{number}\n");
        assert_eq!((output.stdout, output.stderr, output.exit_code), (line.clone(), line, i32::try_from(number).ok()));
    }
}
