use super::*;
use crate::testing::{Desk, map};
use pretty_assertions::assert_eq;
use serde_json::json;

const W: &str = "/mnt/user-data/workspace";

fn args(old: &str, new: &str) -> Value {
    json!({"description": "t", "path": format!("{W}/a"), "old_str": old, "new_str": new})
}

fn all(old: &str, new: &str) -> Value {
    let mut args = args(old, new);
    args["replace_all"] = json!(true);
    args
}

#[tokio::test]
async fn one_occurrence_is_replaced_and_its_line_told() {
    let desk = Desk::new();
    desk.file("workspace/a", "one\ntwo\nthree");
    assert_eq!(desk.ok("str_replace", args("two\nthr", "2\n3")).await, "OK\nreplaced 1 occurrence at line 2");
    assert_eq!(desk.bytes("workspace/a"), b"one\n2\n3ee");
    assert_eq!(desk.ok("str_replace", args("ee", "")).await, "OK\nreplaced 1 occurrence at line 3");
    assert_eq!(desk.bytes("workspace/a"), b"one\n2\n3");
}

#[tokio::test]
async fn several_matches_are_an_error_that_shows_them_unless_all_are_meant() {
    let desk = Desk::new();
    desk.file("workspace/a", "x = 1\ny\n  x = 2\n");
    assert_eq!(
        desk.fail("str_replace", args("x =", "z =")).await,
        format!(
            "String to replace occurs 2 times in file: {W}/a. Nothing was changed. Give more of the surrounding text so that it is \
             unique, or set replace_all=true. It occurs at:\n  line 1: x = 1\n  line 3: x = 2"
        )
    );
    assert_eq!(desk.bytes("workspace/a"), b"x = 1\ny\n  x = 2\n");
    assert_eq!(desk.ok("str_replace", all("x =", "z =")).await, "OK\nreplaced 2 occurrences at lines 1, 3");
    assert_eq!(desk.bytes("workspace/a"), b"z = 1\ny\n  z = 2\n");
}

#[tokio::test]
async fn many_matches_and_many_lines_are_summed_up() {
    let desk = Desk::new();
    desk.file("workspace/a", "x\n".repeat(30));
    let text = desk.fail("str_replace", args("x", "y")).await;
    assert!(text.ends_with("  line 10: x\n  … and 20 more"), "{text}");
    assert_eq!(
        desk.ok("str_replace", all("x", "y")).await,
        "OK\nreplaced 30 occurrences at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"
    );
}

#[tokio::test]
async fn br_130_an_empty_old_str_is_refused_and_changes_nothing() {
    let desk = Desk::new();
    desk.file("workspace/a", "abc");
    assert!(desk.fail("str_replace", all("", "X")).await.starts_with("old_str is empty; nothing was changed"));
    assert!(desk.fail("str_replace", args("b", "b")).await.contains("are the same; nothing was changed"));
    assert_eq!(desk.bytes("workspace/a"), b"abc");
}

#[tokio::test]
async fn br_131_nothing_is_found_in_an_empty_file() {
    let desk = Desk::new();
    desk.file("workspace/a", "");
    let text = desk.fail("str_replace", args("x", "y")).await;
    assert!(text.starts_with(&format!("String to replace not found in file: {W}/a")), "{text}");
}

#[tokio::test]
async fn br_132_a_crlf_file_matches_lf_text_and_keeps_its_line_ends() {
    let desk = Desk::new();
    desk.file("workspace/a", "a\r\n\tb\r\n");
    assert_eq!(desk.ok("str_replace", args("a\n\tb", "c\n\td")).await, "OK\nreplaced 1 occurrence at line 1");
    assert_eq!(desk.bytes("workspace/a"), b"c\r\n\td\r\n");
}

#[tokio::test]
async fn br_134_white_space_is_exact_and_a_near_miss_is_only_pointed_at() {
    let desk = Desk::new();
    desk.file("workspace/a", "fn main() {\n        work();\n}\n");
    let text = desk.fail("str_replace", args("fn main() {\n    work();", "x")).await;
    assert!(text.contains("line 1 has the same words"), "{text}");
    let text = desk.fail("str_replace", args("fn  main()", "x")).await;
    assert!(text.contains("line 1 has the same words"), "{text}");
    assert!(desk.fail("str_replace", args("nowhere", "x")).await.contains("matching is exact"));
    assert_eq!(desk.bytes("workspace/a"), b"fn main() {\n        work();\n}\n");
}

#[tokio::test]
async fn encoding_and_byte_order_mark_stay() {
    let desk = Desk::new();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    desk.file("workspace/a", utf16("\u{feff}größe\r\n"));
    desk.ok("str_replace", args("größe", "界")).await;
    assert_eq!(desk.bytes("workspace/a"), utf16("\u{feff}界\r\n"));
}

#[tokio::test]
async fn files_that_cannot_be_edited_say_why() {
    let desk = Desk::new();
    let at = |name: &str| json!({"path": format!("{W}/{name}"), "old_str": "a", "new_str": "b"});
    desk.file("workspace/bin", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0");
    desk.file("workspace/dir/x", "a");
    assert_eq!(desk.fail("str_replace", at("none")).await, format!("File not found: {W}/none"));
    assert_eq!(desk.fail("str_replace", at("bin")).await, format!("{W}/bin is not a text file; nothing was changed"));
    assert_eq!(desk.fail("str_replace", at("dir")).await, format!("Path is a directory, not a file: {W}/dir"));
}

#[tokio::test]
async fn an_unfinished_edit_is_found_done_not_done_or_unknown() {
    let desk = Desk::new();
    desk.file("workspace/a", "one\ntwo\n");
    let tool = desk.tool("str_replace");
    let args = map(args("two", "2"));
    let fingerprint = tool.fingerprint(&desk.ctx, &args).await.unwrap();
    assert!(matches!(tool.verify(&desk.ctx, &args, &fingerprint).await, Verdict::NotDone));
    tool.call(&desk.ctx, args.clone()).await.unwrap();
    match tool.verify(&desk.ctx, &args, &fingerprint).await {
        Verdict::Done(output) => assert_eq!(output.content.text(), "OK\nreplaced 1 occurrence at line 2"),
        other => panic!("{other:?}"),
    }
    desk.file("workspace/a", "someone else");
    assert!(matches!(tool.verify(&desk.ctx, &args, &fingerprint).await, Verdict::Unknown));
    assert!(tool.fingerprint(&desk.ctx, &args).await.is_none(), "an edit that cannot be made has no fingerprint");
}
