//! Files that come in.

use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

fn form(files: &[(&str, &str)]) -> Form {
    files.iter().fold(Form::new(), |form, (name, text)| {
        form.part("files", Part::bytes(text.as_bytes().to_vec()).file_name((*name).to_owned()))
    })
}

impl Gateway {
    async fn upload(&self, thread: &str, form: Form) -> (u16, Value) {
        answer(self.client.post(format!("{}/api/threads/{thread}/uploads", self.url)).multipart(form)).await
    }
    fn uploaded(&self, thread: &str, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder(thread).join("user-data/uploads").join(name)).ok()
    }
}

#[tokio::test]
async fn files_come_before_the_thread_and_are_listed() {
    let gateway = Gateway::start().await;
    assert_eq!(
        gateway.get("/api/threads/t/uploads/limits").await,
        (200, json!({"max_files": 10, "max_file_size": 52428800, "max_total_size": 104857600}))
    );
    assert_eq!(gateway.get("/api/threads/t/uploads/list").await, (200, json!({"files": [], "count": 0})));
    assert!(!gateway.folder("t").exists(), "looking makes nothing");
    let files = [("a b#.txt", "one"), ("dir/../b.md", "two"), ("b.md", "three"), ("测.py", "x")];
    let (status, done) = gateway.upload("t", form(&files).text("other", "ignored")).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!((&done["success"], &done["skipped_files"]), (&json!(true), &json!([])));
    let names: Vec<&str> = done["files"].as_array().unwrap().iter().map(|f| f["filename"].as_str().unwrap()).collect();
    assert_eq!(names, ["a b#.txt", "b.md", "b_1.md", "测.py"]);
    let first = &done["files"][0];
    assert_eq!(first["virtual_path"], "/mnt/user-data/uploads/a b#.txt");
    assert_eq!(first["artifact_url"], "/api/threads/t/artifacts/mnt/user-data/uploads/a%20b%23.txt");
    assert_eq!(
        (&first["size"], &first["extension"], &first["markdown_file"]),
        (&json!(3), &json!(".txt"), &Value::Null)
    );
    assert_eq!(done["files"][2]["original_filename"], "b.md");
    assert!(!done.to_string().contains(gateway.home.path().to_str().unwrap()), "{done}");

    let (_, again) = gateway.upload("t", form(&[("b.md", "changed")])).await;
    assert_eq!(again["files"][0]["filename"], "b.md");
    assert_eq!(gateway.uploaded("t", "b.md").as_deref(), Some("changed"));
    let large = "x".repeat(3 << 20);
    assert_eq!(gateway.upload("large", form(&[("large.txt", &large)])).await.1["files"][0]["size"], 3 << 20);
    let (_, listed) = gateway.get("/api/threads/t/uploads/list").await;
    assert_eq!(listed["count"], 4);
    assert!(listed["files"][0]["modified"].as_f64().unwrap() > 1e9);
    let url = first["artifact_url"].as_str().unwrap();
    assert_eq!(gateway.get(url).await, (200, json!("one")));
    assert_eq!(gateway.get("/api/threads/t").await.0, 404, "no thread was made");

    let path = "/api/threads/t/uploads/a%20b%23.txt";
    assert_eq!(gateway.delete(path).await, (200, json!({"success": true, "message": "Deleted a b#.txt"})));
    assert_eq!(gateway.delete(path).await, (404, json!({"detail": "Thread t not found"})));
    for bad in ["..%2Fx", "%2e%2e%2fb.md", "a%5Cb", "x%00y"] {
        let (status, body) = gateway.delete(&format!("/api/threads/t/uploads/{bad}")).await;
        assert_eq!((status, &body["detail"]), (400, &json!("Invalid path")), "{bad}");
    }
    assert_eq!(gateway.get("/api/threads/t/uploads/list").await.1["count"], 3);
}

#[tokio::test]
async fn a_request_over_a_limit_leaves_nothing() {
    let limits = "uploads:\n  max_files: 2\n  max_file_size: 10\n  max_total_size: 15\n";
    let gateway = Gateway::start_with(limits).await;
    gateway.upload("t", form(&[("old.txt", "old")])).await;
    for (files, detail) in [
        (vec![("a", "1"), ("b", "2"), ("c", "3")], "Too many files: maximum is 2"),
        (vec![("a", "1"), ("b", "12345678901")], "File too large: b"),
        // What it would have replaced stays.
        (vec![("old.txt", "12345678901")], "File too large: old.txt"),
        (vec![("a", "1234567890"), ("b", "123456")], "Total upload size too large"),
    ] {
        assert_eq!(gateway.upload("t", form(&files)).await, (413, json!({"detail": detail})));
    }
    let (_, listed) = gateway.get("/api/threads/t/uploads/list").await;
    assert_eq!((&listed["count"], &listed["files"][0]["filename"]), (&json!(1), &json!("old.txt")));
    assert_eq!(gateway.uploaded("t", "old.txt").as_deref(), Some("old"));
    let left: Vec<_> = std::fs::read_dir(gateway.folder("t").join("user-data/uploads")).unwrap().collect();
    assert_eq!(left.len(), 1);

    let none = (400, json!({"detail": "No files provided"}));
    assert_eq!(gateway.upload("t", Form::new().text("x", "y")).await, none);
    assert_eq!(gateway.upload("t", form(&[("..", "x")])).await.1["files"], json!([]));
    assert_eq!(gateway.post("/api/threads/t/uploads", &json!({})).await, none);
    let url = format!("{}/api/threads/t/uploads", gateway.url);
    let cut =
        gateway.client.post(&url).header("content-type", "multipart/form-data; boundary=x").body("--x\r\nrubbish");
    assert_eq!(answer(cut).await.0, 400);
    assert_eq!(gateway.upload("a%20b", form(&[("a", "1")])).await.0, 422);
}

#[tokio::test]
async fn what_an_agent_put_in_the_way_is_not_followed() {
    let gateway = Gateway::start().await;
    gateway.upload("t", form(&[("a.txt", "a")])).await;
    let folder = gateway.folder("t").join("user-data/uploads");
    let secret = gateway.home.path().join("secret.txt");
    std::fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("link.txt")).unwrap();
    std::fs::hard_link(&secret, folder.join("second.txt")).unwrap();
    let (status, done) = gateway.upload("t", form(&[("link.txt", "x"), ("second.txt", "x"), ("b.txt", "b")])).await;
    assert_eq!((status, &done["success"]), (200, &json!(false)));
    assert_eq!(done["skipped_files"], json!(["link.txt", "second.txt"]));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    let names: Vec<Value> = gateway.get("/api/threads/t/uploads/list").await.1["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["filename"].clone())
        .collect();
    assert!(!names.contains(&json!("link.txt")), "{names:?}");
    assert_eq!(gateway.get("/api/threads/t/artifacts/mnt/user-data/uploads/link.txt").await.0, 403);
    assert_eq!(gateway.delete("/api/threads/t/uploads/link.txt").await.0, 200);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
}
