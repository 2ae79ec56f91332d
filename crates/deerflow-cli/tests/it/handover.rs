//! What a run hands over, and what it says at its end.

use crate::support::World;
use deerflow_testkit::{Gate, Turn, call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn deliver(world: &World, text: &str) {
    let path = "/mnt/user-data/outputs/report.md";
    world.model().push(Turn::calls([call("write_file", json!({"description": "d", "path": path, "content": text}))]));
    world.model().push(Turn::calls([call("present_files", json!({"filepaths": [path]}))]));
    world.model().push(Turn::text("delivered"));
}

/// The user's own files are never replaced; what we delivered before is, unless somebody changed it.
#[tokio::test]
async fn a_delivery_never_replaces_what_is_not_ours() {
    let world = World::scripted().await;
    let out = world.path("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("report.md"), "MY OWN WORK").unwrap();
    let folder = out.to_str().unwrap().to_owned();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let go = async |text: &str| {
        deliver(&world, text);
        world.run(&["run", "go", "--thread", "t", "-o", &folder]).await.expect_code(0)
    };
    let ran = go("one").await;
    assert!(ran.stderr.contains("not ours to replace"), "{}", ran.stderr);
    assert_eq!((read("report.md").as_str(), read("report_1.md").as_str()), ("MY OWN WORK", "one"));
    go("two").await;
    assert_eq!(read("report_1.md"), "two", "our own file is brought up to date");
    std::fs::write(out.join("report_1.md"), "edited by hand").unwrap();
    go("three").await;
    assert_eq!((read("report_1.md").as_str(), read("report_2.md").as_str()), ("edited by hand", "three"));
}

#[tokio::test]
async fn limits_and_failed_commands_are_said() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": "echo out; exit 3"}))]));
    world.model().push(Turn::text("as far as I got"));
    let ran = world.run(&["run", "go", "--thread", "t", "--max-turns", "2"]).await.expect_code(0);
    assert!(ran.stderr.contains("! bash echo out; exit 3") && ran.stderr.contains("exit code 3"), "{}", ran.stderr);
    assert!(ran.stderr.contains("limit of model turns") && ran.stderr.contains("--thread t"), "{}", ran.stderr);
}

/// `run_finished` is the last line, and tells a question from an answer.
#[tokio::test]
async fn json_ends_with_the_run_and_its_question() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([call("ask_clarification", json!({"question": "Which?", "options": ["a", "b"]}))]));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    let lines = ran.expect_code(3).json_lines();
    assert_eq!(lines.last().unwrap()["type"], "run_finished");
    assert_eq!(end["question"]["question"], "Which?");
    assert_eq!(end["question"]["options"][1]["label"], "b");
    let list = world.run(&["threads", "list"]).await.expect_code(0);
    assert!(list.stdout.contains("asks you"), "{}", list.stdout);
    let shown = world.run(&["threads", "show", "t"]).await.expect_code(0);
    assert!(
        shown.stdout.contains("Which?") && shown.stdout.contains("deerflow run \"your answer\" --thread t"),
        "{}",
        shown.stdout
    );
}

#[tokio::test]
async fn a_failed_run_says_why_once_and_on_stderr() {
    let world = World::scripted().await;
    world.model().push(Turn::status(401).error(json!({"error": {"message": "Incorrect API key provided"}})));
    let ran = world.run(&["run", "go", "--quiet", "--thread", "t", "-o", "out"]).await.expect_code(1);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr.matches("refused the key").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("deerflow resume t --output out"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_killed_run_is_listed_as_cut_off() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    assert!(world.run(&["threads", "list"]).await.stdout.contains("busy"));
    running.kill();
    assert!(world.run(&["threads", "list"]).await.stdout.contains("cut off"));
    let rows: Vec<Value> = serde_json::from_str(&world.run(&["threads", "list", "--json"]).await.stdout).unwrap();
    assert!(rows[0]["created_at"].as_str().unwrap().ends_with('Z'), "{rows:?}");
    world.run(&["threads", "delete", "t", "--yes"]).await.expect_code(0);
    assert!(world.run(&["threads", "list"]).await.stdout.contains("no threads yet"));
}

#[tokio::test]
async fn output_that_cannot_be_written_is_an_error() {
    let world = World::offline();
    let mut command = world.command(&["models"]);
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// Text from a model or a file never drives the terminal.
#[tokio::test]
async fn escape_sequences_are_shown_not_obeyed() {
    let world = World::scripted().await;
    let nasty = "a\u{1b}[2Jb";
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": format!("echo '{nasty}'")}))]));
    world.model().push(Turn::text(nasty));
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    let shown = world.run(&["threads", "show", "t"]).await.expect_code(0);
    for text in [&ran.stdout, &ran.stderr, &shown.stdout] {
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    assert!(ran.stdout.contains("a␛[2Jb"), "{}", ran.stdout);
}

/// A command may put a link in place of what it presented; the file list never names what it points to.
#[tokio::test]
async fn a_link_in_place_of_a_delivery_is_not_listed() {
    let world = World::scripted().await;
    let secret = world.path("secret");
    std::fs::write(&secret, "s").unwrap();
    let swap = format!("ln -sf {} /mnt/user-data/outputs/report.md", secret.display());
    let path = "/mnt/user-data/outputs/report.md";
    world.model().push(Turn::calls([call("write_file", json!({"description": "d", "path": path, "content": "x"}))]));
    world.model().push(Turn::calls([call("present_files", json!({"filepaths": [path]}))]));
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": swap}))]));
    world.model().push(Turn::text("done"));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    ran.expect_code(0);
    assert_eq!(end["files"], json!([]));
}
