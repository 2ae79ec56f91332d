//! The server, over a socket.

use super::driver::{Driver, Heard, refused};
use crate::support::Gateway;
use deerflow_testkit::ScriptedModel;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) struct Http(Gateway);

impl Http {
    pub(super) async fn start() -> Self {
        Self(Gateway::start().await)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api{path}", self.0.url)
    }

    async fn frames(&self, request: reqwest::RequestBuilder) -> Heard {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        if status != 200 {
            return refused(status, &serde_json::from_str(&text).unwrap());
        }
        let frame = |block: &str| {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
            let data: Value = serde_json::from_str(field("data:").unwrap()).unwrap();
            json!({"event": field("event:").unwrap(), "data": data, "id": field("id:").is_some()})
        };
        let blocks = text.split("\n\n").filter(|block| block.starts_with("event"));
        json!({"ok": blocks.map(frame).collect::<Vec<_>>()})
    }
}

fn heard((status, body): (u16, Value)) -> Heard {
    match status {
        200 => json!({"ok": body}),
        204 => json!({"ok": null}),
        _ => refused(status, &body),
    }
}

impl Driver for Http {
    fn model(&self) -> &ScriptedModel {
        &self.0.model
    }
    fn home(&self) -> PathBuf {
        self.0.home.path().to_owned()
    }

    async fn create_thread(&self, id: &str, metadata: Value) -> Heard {
        heard(self.0.post("/api/threads", &json!({"thread_id": id, "metadata": metadata})).await)
    }
    async fn search(&self, metadata: Value) -> Heard {
        heard(self.0.post("/api/threads/search", &json!({"metadata": metadata})).await)
    }
    async fn thread(&self, id: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}")).await)
    }
    async fn delete_thread(&self, id: &str) -> Heard {
        heard(self.0.delete(&format!("/api/threads/{id}")).await)
    }
    async fn state(&self, id: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}/state")).await)
    }
    async fn history(&self, id: &str, limit: u32) -> Heard {
        heard(self.0.post(&format!("/api/threads/{id}/history"), &json!({"limit": limit})).await)
    }
    async fn update_state(&self, id: &str, values: Value, as_node: Option<&str>) -> Heard {
        let body = json!({"values": values, "as_node": as_node});
        heard(self.0.post(&format!("/api/threads/{id}/state"), &body).await)
    }

    async fn stream(&self, id: &str, body: Value) -> Heard {
        self.frames(self.0.client.post(self.url(&format!("/threads/{id}/runs/stream"))).json(&body)).await
    }
    async fn join(&self, id: &str, run: &str) -> Heard {
        self.frames(self.0.client.get(self.url(&format!("/threads/{id}/runs/{run}/stream")))).await
    }
    async fn wait(&self, id: &str, body: Value) -> Heard {
        heard(self.0.post(&format!("/api/threads/{id}/runs/wait"), &body).await)
    }
    async fn start(&self, id: &str, body: Value) -> Heard {
        heard(self.0.post(&format!("/api/threads/{id}/runs"), &body).await)
    }
    async fn runs(&self, id: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}/runs")).await)
    }
    async fn run(&self, id: &str, run: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}/runs/{run}")).await)
    }
    async fn cancel(&self, id: &str, run: &str) -> Heard {
        heard(self.0.post(&format!("/api/threads/{id}/runs/{run}/cancel?wait=1"), &json!({})).await)
    }

    async fn upload(&self, id: &str, name: &str, bytes: &[u8]) -> Heard {
        let part = reqwest::multipart::Part::bytes(bytes.to_vec()).file_name(name.to_owned());
        let form = reqwest::multipart::Form::new().part("files", part);
        let request = self.0.client.post(self.url(&format!("/threads/{id}/uploads"))).multipart(form);
        heard(crate::support::answer(request).await)
    }
    async fn uploads(&self, id: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}/uploads/list")).await)
    }
    async fn delete_upload(&self, id: &str, name: &str) -> Heard {
        let name = name.replace('/', "%2F");
        heard(self.0.delete(&format!("/api/threads/{id}/uploads/{name}")).await)
    }
    async fn artifact(&self, id: &str, path: &str) -> Heard {
        let response = self.0.client.get(self.url(&format!("/threads/{id}/artifacts/{path}"))).send().await.unwrap();
        let status = response.status().as_u16();
        let media_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        match status {
            200 => json!({"ok": {"bytes": text, "media_type": media_type}}),
            _ => refused(status, &serde_json::from_str(&text).unwrap()),
        }
    }

    async fn goal(&self, id: &str) -> Heard {
        heard(self.0.get(&format!("/api/threads/{id}/goal")).await)
    }
    async fn set_goal(&self, id: &str, objective: &str, most: u32) -> Heard {
        let body = json!({"objective": objective, "max_continuations": most});
        heard(self.0.put(&format!("/api/threads/{id}/goal"), &body).await)
    }
    async fn clear_goal(&self, id: &str) -> Heard {
        heard(self.0.delete(&format!("/api/threads/{id}/goal")).await)
    }
    async fn models(&self) -> Heard {
        heard(self.0.get("/api/models").await)
    }
    async fn show_model(&self, name: &str) -> Heard {
        heard(self.0.get(&format!("/api/models/{name}")).await)
    }
}
