use super::*;
use crate::testing::{Desk, map};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const W: &str = "/mnt/user-data/workspace";

async fn write(desk: &Desk, name: &str, content: &str) -> String {
    desk.ok("write_file", json!({"description": "t", "path": format!("{W}/{name}"), "content": content})).await
}

async fn append(desk: &Desk, name: &str, content: &str) -> String {
    desk.ok("write_file", json!({"path": format!("{W}/{name}"), "content": content, "append": true})).await
}

#[tokio::test]
async fn files_are_made_with_their_parents_replaced_and_appended_to() {
    let desk = Desk::new();
    assert_eq!(write(&desk, "a/b/c.txt", "one\n").await, "OK");
    assert_eq!(append(&desk, "a/b/c.txt", "two").await, "OK");
    assert_eq!(desk.bytes("workspace/a/b/c.txt"), b"one\ntwo");
    assert_eq!(write(&desk, "a/b/c.txt", "").await, "OK");
    assert_eq!(desk.bytes("workspace/a/b/c.txt"), b"");
    assert_eq!(append(&desk, "new.txt", "x").await, "OK");
    assert_eq!(desk.bytes("workspace/new.txt"), b"x");
}

#[tokio::test]
async fn content_over_80_kib_is_refused_with_the_way_out_and_append_has_no_limit() {
    let desk = Desk::new();
    let limit = 80 * 1024;
    let args = json!({"path": format!("{W}/a"), "content": "x".repeat(limit + 1)});
    let text = desk.fail("write_file", args).await;
    assert!(
        text.starts_with(&format!(
            "Failed to write file '{W}/a': the content has {} bytes and one call may write {limit}.",
            limit + 1
        )),
        "{text}"
    );
    assert!(text.contains("append=true") && !desk.host("workspace/a").exists());
    // Bytes are counted, not characters.
    assert!(
        desk.fail("write_file", json!({"path": format!("{W}/a"), "content": "界".repeat(limit / 3 + 1)}))
            .await
            .contains("bytes")
    );
    assert_eq!(write(&desk, "a", &"x".repeat(limit)).await, "OK");
    assert_eq!(append(&desk, "a", &"y".repeat(2 * limit)).await, "OK");
    assert_eq!(desk.bytes("workspace/a").len(), 3 * limit);
}

#[tokio::test]
async fn mode_line_ends_and_encoding_of_an_existing_file_stay() {
    let desk = Desk::new();
    desk.file("workspace/run.sh", "echo 1\r\n");
    std::fs::set_permissions(desk.host("workspace/run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(write(&desk, "run.sh", "echo 2\necho 3\n").await, "OK\nThe file keeps its Windows line ends (CRLF).");
    assert_eq!(desk.bytes("workspace/run.sh"), b"echo 2\r\necho 3\r\n");
    assert_eq!(std::fs::metadata(desk.host("workspace/run.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    append(&desk, "run.sh", "echo 4\n").await;
    assert_eq!(desk.bytes("workspace/run.sh"), b"echo 2\r\necho 3\r\necho 4\r\n");

    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    desk.file("workspace/u16.txt", utf16("\u{feff}größe"));
    assert_eq!(
        write(&desk, "u16.txt", "kleiner").await,
        "OK\nThe file keeps its encoding (utf-16le with byte order mark)."
    );
    append(&desk, "u16.txt", "界").await;
    assert_eq!(desk.bytes("workspace/u16.txt"), utf16("\u{feff}kleiner界"));

    let gbk = b"\xcf\xfa\xca\xdb\xcf\xc2\xbd\xb5\xb5\xc4\xd4\xad\xd2\xf2\xa3\xba\xbc\xdb\xb8\xf1\xc9\xcf\xd5\xc7\n";
    desk.file("workspace/gbk.txt", gbk);
    append(&desk, "gbk.txt", "上涨").await;
    assert!(desk.bytes("workspace/gbk.txt").ends_with(b"\n\xc9\xcf\xd5\xc7"));
}

#[tokio::test]
async fn places_that_cannot_be_written_are_refused() {
    let desk = Desk::new();
    desk.file("workspace/dir/x", "x");
    std::os::unix::fs::symlink("/etc/hostname", desk.host("workspace/link")).unwrap();
    let fail = async |path: &str| desk.fail("write_file", json!({"path": path, "content": "x"})).await;
    for (path, reason) in [
        ("/mnt/user-data/workspace/dir", "Path is a directory, not a file"),
        ("/mnt/user-data/workspace/link", "Permission denied"),
        ("/mnt/skills/public/x/SKILL.md", "Permission denied: /mnt/skills/public/x/SKILL.md is read-only"),
        ("/mnt/acp-workspace/x", "Permission denied"),
    ] {
        let text = fail(path).await;
        assert!(text.starts_with(&format!("Failed to write file '{path}': {reason}")), "{text}");
    }
    assert!(fail("/mnt/user-data/x").await.starts_with("Permission denied: \"/mnt/user-data/x\""));
    assert!(fail("/etc/passwd").await.starts_with("Permission denied: \"/etc/passwd\" is not a path of the sandbox"));
    assert!(fail("/mnt/user-data/workspace/../../x").await.contains("path traversal"));
}

#[tokio::test]
async fn parallel_appends_to_one_file_lose_nothing() {
    let desk = Desk::new();
    let tool = desk.tool("write_file");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (tool, ctx) = (Arc::clone(&tool), desk.ctx.clone());
        let args = map(json!({"path": format!("{W}/a"), "content": "line\n", "append": true}));
        calls.spawn(async move { tool.call(&ctx, args).await.is_ok() });
    }
    assert!(calls.join_all().await.into_iter().all(|ok| ok));
    assert_eq!(desk.bytes("workspace/a"), b"line\n".repeat(20));
}

#[tokio::test]
async fn a_write_gives_up_when_another_holds_the_file_too_long() {
    let desk = Desk::with(|limits| limits.lock_timeout = std::time::Duration::ZERO);
    let bench = Arc::clone(desk.bench());
    let sandbox = bench.sandbox(&desk.ctx).await.unwrap();
    let path = parse_path(&*sandbox, &format!("{W}/a")).unwrap();
    let held = bench.lock(&desk.ctx, &*sandbox, &path).await.unwrap();
    let call = json!({"path": format!("{W}/a"), "content": "x"});
    let text = desk.fail("write_file", call.clone()).await;
    assert!(text.starts_with(&format!("{W}/a was being written by another call")), "{text}");
    assert_eq!(write(&desk, "b", "x").await, "OK");
    drop(held);
    assert_eq!(desk.ok("write_file", call).await, "OK");
}

/// What an unfinished call is found to be, after `happened` ran between its record and the crash.
async fn verdict(before: Option<&str>, args: Value, happened: impl AsyncFnOnce(&Desk)) -> Verdict {
    let desk = Desk::new();
    if let Some(before) = before {
        desk.file("workspace/a", before);
    }
    let tool = desk.tool("write_file");
    let fingerprint = tool.fingerprint(&desk.ctx, &map(args.clone())).await.unwrap();
    happened(&desk).await;
    tool.verify(&desk.ctx, &map(args), &fingerprint).await
}

#[tokio::test]
async fn an_unfinished_write_is_found_done_not_done_or_unknown() {
    for (before, args, after) in [
        (None, json!({"path": format!("{W}/a"), "content": "new\n"}), "new\n"),
        (Some("old\r\n"), json!({"path": format!("{W}/a"), "content": "new\n"}), "new\r\n"),
        (Some("old\r\n"), json!({"path": format!("{W}/a"), "content": "more\n", "append": true}), "old\r\nmore\r\n"),
        (Some("a\0b\x01"), json!({"path": format!("{W}/a"), "content": "more", "append": "true"}), "a\0b\x01more"),
    ] {
        let call = args.clone();
        let done = verdict(before, args.clone(), async |desk| {
            desk.tool("write_file").call(&desk.ctx, map(call)).await.unwrap();
            assert_eq!(desk.bytes("workspace/a"), after.as_bytes());
        });
        match done.await {
            Verdict::Done(output) => assert!(output.content.text().starts_with("OK"), "{args}"),
            other => panic!("{args}: {other:?}"),
        }
        assert!(matches!(verdict(before, args.clone(), async |_| {}).await, Verdict::NotDone), "{args}");
        let changed = verdict(before, args.clone(), async |desk| desk.file("workspace/a", "someone else")).await;
        assert!(matches!(changed, Verdict::Unknown), "{args}");
    }
}
