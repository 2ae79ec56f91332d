//! The tools as a model uses them, over the real sandbox.

use crate::support::{World, story};
use deerflow_testkit::{Turn, call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Runs these calls one after the other and gives their results.
async fn results(world: &World, calls: Vec<(&str, Value)>) -> Vec<String> {
    let count = calls.len();
    for (name, args) in calls {
        world.model().push(Turn::calls([call(name, args)]));
    }
    world.model().push(Turn::text("end"));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    let results: Vec<String> = story(&world.state("t").await)
        .into_iter()
        .filter_map(|s| s.strip_prefix("tool: ").map(str::to_owned))
        .collect();
    assert_eq!(results.len(), count);
    let home = world.home.path().to_str().unwrap().to_owned();
    assert!(results.iter().all(|r| !r.contains(&home)), "no host path reaches the model: {results:?}");
    results
}

#[tokio::test]
async fn work_at_the_computer() {
    let world = World::scripted().await;
    let file = "/mnt/user-data/workspace/a.txt";
    let got = results(
        &world,
        vec![
            ("write_file", json!({"description": "d", "path": file, "content": "one\r\ntwo\r\nthree"})),
            ("str_replace", json!({"description": "d", "path": file, "old_str": "one\ntwo", "new_str": "1\n2"})),
            (
                "bash",
                json!({"description": "d", "command": "od -c a.txt | head -3; pwd; id -u; echo oops >&2; exit 3"}),
            ),
            ("grep", json!({"description": "d", "pattern": "THREE", "path": "/mnt/user-data/workspace"})),
            ("glob", json!({"description": "d", "pattern": "**/*.txt", "path": "/mnt/user-data/workspace"})),
            ("read_file", json!({"description": "d", "path": file, "start_line": 2, "end_line": 2})),
            ("read_file", json!({"description": "d", "path": "/etc/passwd"})),
            ("ls", json!({"description": "d", "path": "/mnt/user-data/workspace"})),
        ],
    )
    .await;
    assert_eq!(got[0], "OK");
    assert!(got[1].starts_with("OK"), "{}", got[1]);
    assert!(
        got[2].contains("1  \\r  \\n   2  \\r  \\n") && got[2].contains("/mnt/user-data/workspace\n1000"),
        "{}",
        got[2]
    );
    assert!(got[2].contains("Std Error:\noops") && got[2].ends_with("Exit Code: 3"), "{}", got[2]);
    assert!(got[3].contains("a.txt:3: three"), "{}", got[3]);
    assert!(got[4].contains("/mnt/user-data/workspace/a.txt"), "{}", got[4]);
    assert_eq!(got[5].trim_end(), "2");
    assert!(got[6].starts_with("Error:"), "{}", got[6]);
    assert!(got[7].contains("/mnt/user-data/workspace/a.txt"), "{}", got[7]);
    assert_eq!(world.state("t").await["sandbox"], json!({"sandbox_id": "isolated:default:t"}));
}

/// BR-110: the tail with the error is kept, and the whole is on disk.
#[tokio::test]
async fn a_huge_output_keeps_its_end_and_its_exit_code() {
    let world = World::scripted().await;
    let command = "head -c 500000 /dev/zero | tr '\\0' x; echo; echo 'error: it broke'; exit 1";
    let got = results(&world, vec![("bash", json!({"description": "d", "command": command}))]).await;
    assert!(got[0].len() < 40_000, "{}", got[0].len());
    assert!(got[0].contains("error: it broke") && got[0].contains("Exit Code: 1"), "{}", got[0]);
    let name = got[0].split("/mnt/user-data/outputs/.tool-results/").nth(1).expect("names the whole output");
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    let saved =
        std::fs::read_to_string(world.path("users/default/threads/t/user-data/outputs/.tool-results").join(&name))
            .unwrap();
    assert!(saved.len() > 500_000, "the whole of it: {}", saved.len());
}

/// BR-106, BR-109: nothing waits for ever.
#[tokio::test]
async fn background_processes_and_standard_input_do_not_hang() {
    let world = World::scripted().await;
    let got = results(
        &world,
        vec![
            ("bash", json!({"description": "d", "command": "echo A && sleep 300 & echo B"})),
            ("bash", json!({"description": "d", "command": "cat; read x; echo done"})),
        ],
    )
    .await;
    assert!(got[0].contains('A') && got[0].contains('B'), "{}", got[0]);
    assert_eq!(got[1].trim_end(), "done");
}

#[tokio::test]
async fn a_pdf_is_read_as_text_with_page_marks() {
    let world = World::scripted().await;
    let sample = crate::support::repository().join("samples/sales-notes.pdf");
    world.model().push(Turn::calls([call(
        "read_file",
        json!({"description": "d", "path": "/mnt/user-data/uploads/sales-notes.pdf"}),
    )]));
    world.model().push(Turn::text("read"));
    world.run(&["run", "read it", "--thread", "t", "-f", sample.to_str().unwrap()]).await.expect_code(0);
    let story = story(&world.state("t").await);
    let text = story.iter().find(|s| s.starts_with("tool: ")).unwrap();
    assert!(text.contains("<!-- page 1 -->") && text.contains("<!-- page 2 -->"), "{text}");
    assert!(text.contains("| --- |") || text.contains("|---"), "a table comes as a table: {text}");
}
