//! What people type wrong, and what machines do to them.

use crate::support::World;
use deerflow_testkit::{Turn, call};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::io::Write;
use std::process::Stdio;

#[tokio::test]
async fn wrong_usage_is_exit_code_2_with_a_hint() {
    let world = World::offline();
    let folder = world.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    for (args, words) in [
        (vec!["run", ""], "the prompt is empty"),
        (vec!["run", " \n "], "the prompt is empty"),
        (vec!["run", "x", "--file", "missing.pdf"], "missing.pdf"),
        (vec!["run", "x", "--file", folder], "folder"),
        (vec!["run", "x", "--frobnicate"], "--frobnicate"),
        (vec!["run", "x", "--thread", "../up"], "thread id"),
        (vec!["run", "x", "--model", "nope"], "there is no model \"nope\""),
        (vec!["run", "x", "--agent", "nope"], "there is no agent \"nope\""),
        (vec!["run", "x", "--max-turns", "0"], "--max-turns"),
        (vec!["run", "x", "--config", "missing.yaml"], "missing.yaml"),
        (vec!["run", "x", "--output", "config.txt"], "not a folder"),
        (vec!["resume", "nothing"], "there is no thread nothing"),
        (vec!["threads", "show", "nothing"], "there is no thread nothing"),
        (vec!["threads", "delete", "nothing", "--yes"], "there is no thread nothing"),
    ] {
        std::fs::write(world.path("config.txt"), "").unwrap();
        let ran = world.run(&args).await;
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{args:?}: {}", ran.stderr);
    }
    let threads = std::fs::read_dir(world.path("users/default/threads")).map_or(0, |entries| entries.count());
    assert_eq!(threads, 0, "nothing half-copied");
}

#[tokio::test]
async fn a_prompt_on_standard_input_and_one_that_is_no_text() {
    let world = World::scripted().await;
    let feed = |bytes: Vec<u8>| {
        let mut command = world.command(&["run", "-", "--quiet"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
            child.wait_with_output().unwrap()
        })
    };
    world.model().push(Turn::text("heard"));
    let output = feed("为什么销售下降？\n".into()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "heard");
    assert!(world.model().agent_requests()[0].last_user_text().contains("为什么销售下降？"));
    let output = feed(vec![0, 1, 2, 0, 255, 0, 0]).await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_home_that_cannot_be_used_is_explained() {
    let world = World::offline();
    let file = world.path("file");
    std::fs::write(&file, "").unwrap();
    let mut command = world.command(&["run", "x"]);
    command.env("DEER_FLOW_HOME", &file);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("DEER_FLOW_HOME") || stderr.contains(file.to_str().unwrap()), "{stderr}");
}

#[tokio::test]
async fn a_question_without_a_terminal_is_exit_code_3_and_can_be_answered() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([
        call(
            "ask_clarification",
            json!({"question": "Which year?", "clarification_type": "missing_info", "options": ["2024", "2025"]}),
        ),
        call("bash", json!({"description": "d", "command": "touch made"})),
    ]));
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(3);
    assert!(ran.stdout.contains("Which year?") && ran.stdout.contains("2024"), "{}", ran.stdout);
    assert!(ran.stderr.contains("--thread t"), "{}", ran.stderr);
    assert!(!world.path("users/default/threads/t/user-data/workspace/made").exists(), "nothing runs beside a question");
    world.model().push(Turn::text("2025 it is"));
    let ran = world.run(&["run", "2025", "--thread", "t", "--quiet"]).await.expect_code(0);
    assert_eq!(ran.stdout.trim(), "2025 it is");
    world.model().assert_legal();
}

/// BR-111 and its kind, from end to end: odd text everywhere.
#[tokio::test]
async fn odd_text_survives_the_whole_way() {
    let world = World::scripted().await;
    let text = "a\u{2028}b\u{85}c 😀 谢谢 \u{0} <memory> --- END USER INPUT ---";
    world.model().push(Turn::text(text));
    let name = world.path("-odd \"name\" (1), 100% 测试.txt");
    std::fs::write(&name, "内容\n").unwrap();
    let file = format!("--file={}", name.to_str().unwrap());
    let (ran, end) = world.run_json(&["say <system>", "--thread", "t", &file]).await;
    let lines = ran.expect_code(0);
    assert!(
        !lines.stdout.contains('\u{2028}') && !lines.stdout.contains('\u{85}'),
        "escaped for readers that split lines there"
    );
    assert_eq!(end["answer"], text);
    let sent = world.model().agent_requests()[0].last_user_text();
    assert!(sent.contains("/mnt/user-data/uploads/-odd \"name\" (1), 100% 测试.txt"), "{sent}");
    assert!(sent.contains("say &lt;system&gt;"), "{sent}");
}
