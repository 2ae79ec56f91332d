use super::*;
use deerflow_sandbox::{Expect, HostProvider, SandboxConfig, SandboxProvider};
use pretty_assertions::assert_eq;
use serde_json::json;

fn run(command: &str, exit_code: Option<i32>, output: &str) -> CommandRun {
    CommandRun { command: command.into(), exit_code, output_tail: output.into() }
}

async fn check(criteria: &[&str], runs: &[CommandRun]) -> AcceptanceVerdict {
    let dir = tempfile::tempdir().unwrap();
    let config = SandboxConfig { min_free_mb: 0, ..SandboxConfig::default() };
    let sandbox = HostProvider::new(dir.path(), config).unwrap().acquire("u", "t").await.unwrap();
    for (path, text) in [("a b.json", "\u{feff}{\"a\": [1]}"), ("bad.json", "{]"), ("empty", ""), ("d/x", "x")] {
        sandbox.write_text(&VirtualPath::parse(path).unwrap(), text, Expect::Any).await.unwrap();
    }
    let criteria: Vec<String> = criteria.iter().map(|c| (*c).to_owned()).collect();
    acceptance_checks(&criteria, &*sandbox, runs, &CancellationToken::new()).await.unwrap()
}

fn outcomes(verdict: &AcceptanceVerdict) -> Vec<(&str, bool, bool)> {
    verdict.leaves.iter().map(|l| (l.family.as_str(), l.checked, l.holds)).collect()
}

#[tokio::test]
async fn files_are_looked_at() {
    let verdict = check(
        &[
            "file:/mnt/user-data/workspace/a b.json exists",
            "FILE: a b.json valid-json",
            "file:bad.json valid-json",
            "file:empty exists",
            "file:empty non-empty",
            "file_written: d/x",
            "file:missing exists",
            "file:d exists",
            "file:/mnt/user-data/uploads/x exists",
            "file:../x exists",
        ],
        &[],
    )
    .await;
    assert_eq!(
        outcomes(&verdict),
        [
            ("file_exists", true, true),
            ("file_json_valid", true, true),
            ("file_json_valid", true, false),
            ("file_exists", true, true),
            ("file_non_empty", true, false),
            ("file_written", true, true),
            ("file_exists", true, false),
            ("file_exists", true, false),
            ("file_exists", false, false),
            ("file_exists", false, false),
        ]
    );
    assert!(!verdict.all_hold);
    assert_eq!(verdict.unchecked, ["file:/mnt/user-data/uploads/x exists", "file:../x exists"]);
    assert!(
        verdict.summary().starts_with("acceptance: 4 hold, 4 do not hold, 2 UNVERIFIED ("),
        "{}",
        verdict.summary()
    );
    assert!(verdict.checklist().contains("\n- [does not hold] file:missing exists: the file does not exist"));
}

#[tokio::test]
async fn commands_are_recalled_and_the_latest_run_decides() {
    let runs = [
        run("make", Some(2), ""),
        run("cd x && make", Some(0), "built"),
        run("pytest", Some(0), "5 passed in 1s"),
        run("cargo test", Some(0), "test result: ok. 5 passed; 0 failed; 0 ignored"),
        run("npm test", Some(0), "Tests: 1 failed, 4 passed"),
        run("go test", Some(0), "? pkg [no test files]"),
        run("lint", Some(0), "fine"),
        run("slow", None, "timed out"),
        run("late", Some(0), ""),
        run("late", Some(1), ""),
    ];
    let verdict = check(
        &[
            "command_ok:make",
            "tests_passed: pytest",
            "tests_passed:cargo  test",
            "tests_passed:npm test",
            "tests_passed:go test",
            "tests_passed:lint",
            "command_ok:slow",
            "command_ok:late",
            "command_ok:never",
        ],
        &runs,
    )
    .await;
    let got: Vec<_> = verdict.leaves.iter().map(|l| (l.checked, l.holds)).collect();
    let (yes, no, open) = ((true, true), (true, false), (false, false));
    assert_eq!(got, [yes, yes, yes, no, no, open, no, no, open], "{}", verdict.checklist());
}

#[tokio::test]
async fn what_cannot_be_checked_is_never_passed_over() {
    let verdict =
        check(&["The report is good", "file: exists", "tests_passed:", " ", "file:a b.json exists now"], &[]).await;
    assert_eq!(outcomes(&verdict), [("undecidable", false, false); 4]);
    let all = check(&["file:d/x exists"], &[]).await;
    assert!(all.all_hold && all.unchecked.is_empty());
    let many = vec!["x"; 30];
    assert_eq!(check(&many, &[]).await.leaves.len(), 20);
    let long = check(&[&"<system>".repeat(100)], &[]).await;
    assert!(long.leaves[0].criterion.starts_with("&lt;system&gt;"));
    assert_eq!(AcceptanceVerdict::from_value(&json!(long)), Some(long));
}

#[tokio::test]
async fn a_stored_verdict_must_agree_with_itself() {
    let verdict = check(&["file:missing exists", "file:d/x exists", "x"], &[]).await;
    let stored = json!(verdict);
    assert_eq!(AcceptanceVerdict::from_value(&stored), Some(verdict));
    for (pointer, value) in [
        ("/all_hold", json!(true)),
        ("/unchecked", json!([])),
        ("/leaves/2/holds", json!(true)),
        ("/leaves/1/checked", json!(false)),
        ("/leaves", json!([])),
        ("/source", json!("me")),
    ] {
        let mut forged = stored.clone();
        *forged.pointer_mut(pointer).unwrap() = value;
        assert_eq!(AcceptanceVerdict::from_value(&forged), None, "{pointer}");
    }
}

#[tokio::test]
async fn a_cancelled_check_is_an_unchecked_one() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = HostProvider::new(dir.path(), SandboxConfig::default()).unwrap().acquire("u", "t").await.unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let verdict = acceptance_checks(&["file:x exists".to_owned()], &*sandbox, &[], &cancel).await.unwrap();
    assert_eq!(outcomes(&verdict), [("file_exists", false, false)]);
    assert_eq!(acceptance_checks(&[], &*sandbox, &[], &cancel).await, None);
}

#[test]
fn summaries_of_tests_are_told_from_other_lines() {
    let passed = |text| summary_of_tests(text).map(|line| line.is_ok());
    for text in ["OK", "==== 12 passed in 3s", "ok  \tpkg\t0.1s", "BUILD SUCCESSFUL in 3s", "3 tests passed"] {
        assert_eq!(passed(text), Some(true), "{text}");
    }
    for text in ["1 failed, 4 passed", "0 passed", "FAILED (failures=1)", "FAIL\tpkg", "Ran 0 tests in 0s\nOK"] {
        assert_eq!(passed(text), Some(false), "{text}");
    }
    for text in ["fine", "passed", "it passed the ball"] {
        assert_eq!(passed(text), None, "{text}");
    }
    // A suite of several programs, one of which has no tests.
    assert_eq!(passed("test result: ok. 0 passed; 0 failed\ntest result: ok. 3 passed; 0 failed"), Some(true));
}
