//! `kill -9` at every step boundary and inside calls: what resumes keeps the contract, and no thread is lost.

use crate::support::{World, story};
use deerflow_testkit::{Gate, Turn, call};
use pretty_assertions::assert_eq;
use serde_json::json;

fn write(n: u32) -> Turn {
    Turn::text_and_calls(
        format!("step {n}"),
        [call(
            "write_file",
            json!({"description": "w", "path": format!("/mnt/user-data/workspace/{n}.txt"), "content": format!("content {n}")}),
        )],
    )
}

fn expected(rounds: u32) -> Vec<String> {
    let mut story = vec!["human: go".to_owned()];
    for n in 1..=rounds {
        story.extend([format!("ai: step {n}"), "tool: OK".to_owned()]);
    }
    story.push("ai: done".to_owned());
    story
}

/// Killed while the model is asked for the n-th time: exactly at the boundary after n steps and inside the call.
#[tokio::test]
async fn killed_in_each_model_call_it_goes_on_where_it_was() {
    for killed_at in 0..=3u32 {
        let world = World::scripted().await;
        let gate = Gate::new();
        for n in 1..=killed_at {
            world.model().push(write(n));
        }
        world.model().push(Turn::hang(&gate));
        let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
        gate.reached().await;
        running.kill();
        for n in killed_at + 1..=3 {
            world.model().push(write(n));
        }
        world.model().push(Turn::text("done"));
        let ran = world.run(&["resume", "t"]).await.expect_code(0);
        assert!(ran.stderr.contains("was cut off"), "{}", ran.stderr);
        assert_eq!(story(&world.state("t").await), expected(3), "killed at {killed_at}");
        world.model().assert_legal();
        // The message of the lost attempt never shows.
        let again = world.run(&["resume", "t"]).await;
        assert_eq!(again.code, 2, "{}", again.stderr);
        assert!(again.stderr.contains("nothing to resume"), "{}", again.stderr);
    }
}

/// Killed while a command runs: it died with its server, is not run again, and the model is told so.
#[tokio::test]
async fn killed_inside_a_command_it_is_not_run_twice() {
    let world = World::scripted().await;
    let command = "echo once >> /mnt/user-data/workspace/log; sleep 60; echo twice >> /mnt/user-data/workspace/log";
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": command}))]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_started");
    let log = world.path("users/default/threads/t/user-data/workspace/log");
    deerflow_testkit::eventually("the command has begun", || async { log.exists().then_some(()) }).await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert!(story[2].contains("outcome unknown"), "{story:?}");
    assert_eq!(story[3], "ai: done");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\n");
}

/// A finished call survives a crash beside a slow sibling.
#[tokio::test]
async fn a_finished_call_beside_a_slow_one_is_kept() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([
        call("bash", json!({"description": "d", "command": "sleep 60"})),
        call("bash", json!({"description": "d", "command": "echo quick >> /mnt/user-data/workspace/log; cat /mnt/user-data/workspace/log"})),
    ]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_finished");
    // The result is stored right after it is told; the next tick is far behind that.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert!(story[2].contains("outcome unknown"), "{story:?}");
    assert_eq!(story[3], "tool: quick");
    let log = std::fs::read_to_string(world.path("users/default/threads/t/user-data/workspace/log")).unwrap();
    assert_eq!(log, "quick\n");
}

/// A thread whose process died takes a new message as well; nothing dangles.
#[tokio::test]
async fn a_new_message_after_a_crash_is_legal_and_works() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": "sleep 60"}))]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_started");
    running.kill();
    world.model().push(Turn::text("fine"));
    let ran = world.run(&["run", "continue", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stdout.contains("fine"));
    world.model().assert_legal();
    world.model().assert_every_tool_call_answered();
}

#[tokio::test]
async fn ctrl_c_stops_cleanly_and_says_how_to_go_on() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t"]);
    gate.reached().await;
    running.signal("-INT");
    let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(130);
    assert!(ran.stderr.contains("deerflow resume t"), "{}", ran.stderr);
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: done"]);
}

#[tokio::test]
async fn a_second_process_on_a_running_thread_is_refused_with_the_holders_name() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    for args in [vec!["run", "more", "--thread", "t"], vec!["resume", "t"]] {
        let ran = world.run(&args).await.expect_code(1);
        assert!(ran.stderr.contains(&format!("process {}", running.child.id())), "{}", ran.stderr);
    }
    let ran = world.run(&["threads", "delete", "t", "--yes"]).await.expect_code(1);
    assert!(ran.stderr.contains("active run"), "{}", ran.stderr);
    running.kill();
}

/// A model that failed for good leaves a thread that goes on when the cause is mended.
#[tokio::test]
async fn after_a_failed_model_resume_asks_again() {
    let world = World::scripted().await;
    world.model().push(write(1));
    world.model().push(Turn::status(401).error(json!({"error": {"message": "Incorrect API key provided"}})));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(1);
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), expected(1));
    world.model().assert_legal();
}

/// A full disk fails the run in plain words, and the thread goes on when there is room again.
#[tokio::test]
async fn a_full_disk_is_said_and_survived() {
    let world = World::scripted().await;
    let home = world.path("small");
    std::fs::create_dir(&home).unwrap();
    let mount =
        |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).output().is_ok_and(|o| o.status.success());
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", home.to_str().unwrap()]) {
        println!("SKIPPED: this user may not mount a small file system");
        return;
    }
    let config = world.path("config.yaml");
    let run = |args: Vec<String>| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = world.command(&args);
        command.env("DEER_FLOW_HOME", &home).env("DEER_FLOW_CONFIG_PATH", &config);
        tokio::task::spawn_blocking(move || crate::support::Ran::from(command.output().unwrap()))
    };
    let args = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    world.model().push(Turn::text("first"));
    let first = run(args(&["run", "go", "--thread", "t"])).await.unwrap();
    let filler = home.join("filler");
    // Writes until nothing more fits.
    let _ = std::fs::write(&filler, vec![0u8; 4 << 20]);
    world.model().always(|_| Turn::text("long ".repeat(100_000)));
    let full = run(args(&["run", "more", "--thread", "t"])).await.unwrap();
    std::fs::remove_file(&filler).unwrap();
    world.model().always(|_| Turn::text("there is room"));
    let again = run(args(&["run", "again", "--thread", "t", "--quiet"])).await.unwrap();
    let unmounted = mount(&["umount", "-l", home.to_str().unwrap()]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(full.code != 0 && full.stderr.contains("space"), "{} {}", full.code, full.stderr);
    assert!(!full.stderr.contains("panicked"), "{}", full.stderr);
    assert_eq!((again.code, again.stdout.trim()), (0, "there is room"), "{}", again.stderr);
    assert!(unmounted);
}

/// Many processes at once over one home: each thread its own, nothing lost, nothing locked.
#[tokio::test]
async fn several_processes_share_a_home() {
    let world = World::scripted().await;
    world.model().always(|request| match request.tool_results().len() {
        n @ 0..=1 => Turn::calls([call(
            "write_file",
            json!({"description": "d", "path": format!("/mnt/user-data/workspace/{n}"), "content": "x"}),
        )]),
        _ => Turn::text("done"),
    });
    let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
    let runs = names.iter().map(|name| async { world.run(&["run", "go", "--thread", name]).await.expect_code(0) });
    futures::future::join_all(runs).await;
    for name in &names {
        assert_eq!(story(&world.state(name).await).len(), 6);
    }
}
