//! Files that go out, and come back changed.

use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use reqwest::Response;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;

const AT: &str = "/api/threads/t/artifacts/mnt/user-data/outputs";

async fn with_file(name: &str, bytes: &[u8]) -> (Gateway, PathBuf) {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({})).await;
    let file = gateway.folder("t").join("user-data/outputs").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, bytes).unwrap();
    (gateway, file)
}

impl Gateway {
    async fn fetch(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let request = self.client.get(format!("{}{path}", self.url));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
    }
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_file_has_its_type_its_version_and_its_ranges() {
    let (gateway, _) = with_file("a b.md", b"0123456789").await;
    let path = format!("{AT}/a%20b.md");
    let whole = gateway.fetch(&path, &[]).await;
    assert_eq!(whole.status(), 200);
    assert_eq!(header(&whole, "content-type"), "text/markdown; charset=utf-8");
    assert_eq!(header(&whole, "content-disposition"), "inline; filename=\"a_b.md\"; filename*=UTF-8''a%20b.md");
    assert_eq!(header(&whole, "x-content-type-options"), "nosniff");
    assert!(header(&whole, "last-modified").ends_with(" GMT"));
    let etag = header(&whole, "etag").to_owned();
    assert_eq!(etag, "\"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882\"", "the SHA-256");
    assert_eq!(whole.text().await.unwrap(), "0123456789");

    let part = gateway.fetch(&path, &[("range", "bytes=2-4")]).await;
    assert_eq!((part.status().as_u16(), header(&part, "content-range")), (206, "bytes 2-4/10"));
    assert_eq!(part.text().await.unwrap(), "234");
    let long = gateway.fetch(&path, &[("range", "bytes=0-1048575")]).await;
    assert_eq!((long.status().as_u16(), header(&long, "content-range")), (206, "bytes 0-9/10"));
    let parts = gateway.fetch(&path, &[("range", "bytes=0-1,-2")]).await;
    assert_eq!(parts.status(), 206);
    let boundary = header(&parts, "content-type").strip_prefix("multipart/byteranges; boundary=").unwrap().to_owned();
    let head = |range| {
        format!("--{boundary}\r\nContent-Type: text/markdown; charset=utf-8\r\nContent-Range: bytes {range}/10\r\n\r\n")
    };
    let expected = format!("{}01\r\n{}89\r\n--{boundary}--\r\n", head("0-1"), head("8-9"));
    assert_eq!(parts.text().await.unwrap(), expected);
    let beyond = gateway.fetch(&path, &[("range", "bytes=10-")]).await;
    assert_eq!((beyond.status().as_u16(), header(&beyond, "content-range")), (416, "bytes */10"));
    assert_eq!(beyond.text().await.unwrap(), "");

    let same = gateway.fetch(&path, &[("if-none-match", &etag)]).await;
    assert_eq!(same.status(), 304);
    let other = gateway.fetch(&path, &[("range", "bytes=2-4"), ("if-range", "\"old\"")]).await;
    assert_eq!(other.status(), 200, "a part of another version is of no use");
    let saved = gateway.fetch(&format!("{path}?download=true"), &[]).await;
    assert_eq!(header(&saved, "content-disposition"), "attachment; filename=\"a_b.md\"; filename*=UTF-8''a%20b.md");
}

#[tokio::test]
async fn what_a_browser_would_run_is_only_saved() {
    let (gateway, file) = with_file("a.html", b"<script>alert(1)</script>").await;
    for name in ["a.html", "b.svg", "c.xhtml", "d.xml", "e.HTM"] {
        std::fs::write(file.with_file_name(name), "<x/>").unwrap();
        let shown = gateway.fetch(&format!("{AT}/{name}"), &[]).await;
        assert!(header(&shown, "content-disposition").starts_with("attachment"), "{name}");
        assert!(header(&shown, "content-security-policy").contains("sandbox"), "{name}");
    }
    std::fs::write(file.with_file_name("empty.txt"), "").unwrap();
    let empty = gateway.fetch(&format!("{AT}/empty.txt"), &[("range", "bytes=0-1048575")]).await;
    assert_eq!((empty.status().as_u16(), header(&empty, "content-range")), (416, "bytes */0"));
    std::fs::write(file.with_file_name("data"), [1, 0, 2]).unwrap();
    let data = gateway.fetch(&format!("{AT}/data"), &[]).await;
    assert_eq!(header(&data, "content-type"), "application/octet-stream");
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let (gateway, file) = with_file("dir/a.txt", b"a").await;
    std::os::unix::fs::symlink("/etc/passwd", file.with_file_name("link")).unwrap();
    let refused = [
        ("/api/threads/t/artifacts/mnt/user-data/outputs/..%2F..%2Fx", 403, "Access denied: path traversal detected"),
        ("/api/threads/t/artifacts/etc/passwd", 400, "Invalid path: it must begin with mnt/user-data/"),
        ("/api/threads/t/artifacts/mnt/skills/x", 400, "Invalid path: it must begin with mnt/user-data/"),
        ("/api/threads/t/artifacts/mnt/user-data/outputs/dir", 400, "Path is not a file: mnt/user-data/outputs/dir"),
        (
            "/api/threads/t/artifacts/mnt/user-data/outputs/dir/link",
            403,
            "Access denied: mnt/user-data/outputs/dir/link",
        ),
        ("/api/threads/t/artifacts/mnt/user-data/outputs/none", 404, "Artifact not found: mnt/user-data/outputs/none"),
        ("/api/threads/none/artifacts/mnt/user-data/outputs/x", 404, "Thread none not found"),
    ];
    for (path, status, detail) in refused {
        assert_eq!(gateway.get(path).await, (status, json!({"detail": detail})), "{path}");
    }
    for bad in ["a%00b", "a%5C..%5Cb", "%FF"] {
        let status = gateway.get(&format!("{AT}/{bad}")).await.0;
        assert!((400..500).contains(&status), "{bad} {status}");
    }
    assert!(!gateway.folder("none").exists());
}

#[tokio::test]
async fn members_of_a_skill_archive_are_shown() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, text) in [("my/SKILL.md", "# skill"), ("my/scripts/run.py", "print()"), ("my/page.html", "<x/>")] {
        zip.start_file(name, options).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.start_file("my/bomb.txt", options).unwrap();
    zip.write_all(&vec![b'x'; (16 << 20) + 1]).unwrap();
    let (gateway, file) = with_file("x.skill", &zip.finish().unwrap().into_inner()).await;
    assert_eq!(gateway.get(&format!("{AT}/x.skill/SKILL.md")).await, (200, json!("# skill")));
    let exact = gateway.fetch(&format!("{AT}/x.skill/my/scripts/run.py"), &[("range", "bytes=0-4")]).await;
    assert_eq!((exact.status().as_u16(), header(&exact, "cache-control")), (206, "private, max-age=300"));
    assert_eq!(exact.text().await.unwrap(), "print");
    let page = gateway.fetch(&format!("{AT}/x.skill/page.html"), &[]).await;
    assert!(header(&page, "content-disposition").starts_with("attachment"));
    assert_eq!(gateway.get(&format!("{AT}/x.skill/none.md")).await.0, 404);
    assert_eq!(gateway.get(&format!("{AT}/x.skill/bomb.txt")).await.0, 413);
    std::fs::write(file.with_file_name("bad.skill"), "no zip").unwrap();
    assert_eq!(gateway.get(&format!("{AT}/bad.skill/a")).await.0, 400);
}

#[tokio::test]
async fn a_change_names_the_version_it_was_made_from() {
    let (gateway, file) = with_file("a.md", b"old").await;
    let path = format!("{AT}/a.md");
    let version = async || header(&gateway.fetch(&path, &[]).await, "etag").trim_matches('"').to_owned();
    let first = version().await;
    let (status, done) = gateway.put(&path, &json!({"content": "new", "expected_sha256": first})).await;
    assert_eq!((status, &done["path"], &done["size"]), (200, &json!("/mnt/user-data/outputs/a.md"), &json!(3)));
    assert_eq!(done["sha256"], version().await);
    let put = async |path: &str, content: &str, sha256: &str| {
        gateway.put(path, &json!({"content": content, "expected_sha256": sha256})).await
    };
    let stale = put(&path, "newer", &first).await;
    assert_eq!(stale, (412, json!({"detail": "Artifact changed since it was opened"})));
    assert_eq!(put(&path, "x", "ABC").await.1["detail"][0]["loc"], json!(["body", "expected_sha256"]));
    let now = version().await;
    assert_eq!(put(&path, &"x".repeat((2 << 20) + 1), &now).await.0, 413);
    assert_eq!(put(&path, "a\0b", &now).await.0, 415);
    assert_eq!(put(&format!("{AT}/none.md"), "x", &now).await.0, 404);
    assert_eq!(put(&format!("{AT}/x.skill/SKILL.md"), "x", &now).await.0, 415);
    assert_eq!(put("/api/threads/t/artifacts/mnt/user-data/workspace/a.md", "x", &now).await.0, 400);
    assert_eq!(put("/api/threads/none/artifacts/mnt/user-data/outputs/a.md", "x", &now).await.0, 404);
    std::fs::write(file.with_file_name("b.bin"), [0, 1]).unwrap();
    assert_eq!(put(&format!("{AT}/b.bin"), "x", &now).await.0, 415);
    std::os::unix::fs::symlink(&file, file.with_file_name("link.md")).unwrap();
    assert_eq!(put(&format!("{AT}/link.md"), "x", &now).await.0, 415);
    gateway.occupy("t").await;
    assert_eq!(put(&path, "x", &now).await.0, 409);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
    let wrong = answer(gateway.client.put(format!("{}{path}", gateway.url)).body(vec![0xFF, 0xFE])).await;
    assert_eq!((wrong.0, &wrong.1["detail"][0]["type"]), (422, &json!("json_invalid")));
    assert_eq!(gateway.put(&path, &Value::Null).await.0, 422);
}
