//! Every example runs to its end, offline, and shows what it promises.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;

/// Runs a built example and gives its output.
fn run(name: &str) -> String {
    // `cargo test` builds examples into `examples/` beside the folder of the test binary.
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    let home = tempfile::tempdir().unwrap();
    let output =
        Command::new(&program).env("HOME", home.path()).output().unwrap_or_else(|e| panic!("{program:?}: {e}"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn minimal() {
    assert!(run("minimal").to_lowercase().contains("offline"));
}

#[test]
fn own_tool() {
    let text = run("own_tool");
    assert!(text.contains("called read_file {") && text.contains("/mnt/user-data/uploads/notes.md\""), "{text}");
    assert!(text.contains("12 percent") || text.contains("strike"), "{text}");
}

#[test]
fn own_middleware() {
    let text = run("own_middleware");
    assert!(text.contains("\"TurnCounter\", \"LoopDetectionMiddleware\""), "{text}");
    assert!(text.ends_with("model turns so far: 1\nmodel turns so far: 2\n"), "{text}");
}

#[test]
fn take_over() {
    let text = run("take_over");
    assert!(
        text.contains("[\"Notes\", \"DanglingToolCallMiddleware\", \"ToolErrorHandlingMiddleware\"], tools: 0"),
        "{text}"
    );
    assert!(text.contains("Monday to Friday") && text.contains("error: both `middleware` and `features`"), "{text}");
}

#[test]
fn streaming() {
    let text = run("streaming");
    assert!(text.contains("[offline begins]") && text.contains("[step stored]"), "{text}");
    assert!(text.contains("streamed the whole answer: true"), "{text}");
}

#[test]
fn resume() {
    let text = run("resume");
    assert!(text.contains("first run: cancelled\nresumed: Success, [\"human\", \"ai\"]"), "{text}");
}

#[test]
fn embedded_client() {
    let text = run("embedded_client");
    assert!(text.contains("Successfully uploaded 1 file(s): /mnt/user-data/uploads/minutes.md"), "{text}");
    assert!(text.contains("a second turn: success, many pieces, state shown: true"), "{text}");
    assert!(text.contains("questions asked: 2\nthe newest of the history is the state: true"), "{text}");
}
