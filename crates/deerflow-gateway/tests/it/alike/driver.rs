//! What can be asked of either side.

use deerflow_testkit::ScriptedModel;
use serde_json::{Value, json};
use std::path::PathBuf;

/// `{"ok": …}`, or `{"error": {status, body}}`.
pub(super) type Heard = Value;

pub(super) fn refused(status: u16, body: &Value) -> Heard {
    json!({"error": {"status": status, "body": body}})
}

/// An installation with a scripted model.
pub(super) trait Driver {
    fn model(&self) -> &ScriptedModel;
    fn home(&self) -> PathBuf;

    async fn create_thread(&self, id: &str, metadata: Value) -> Heard;
    async fn search(&self, metadata: Value) -> Heard;
    async fn thread(&self, id: &str) -> Heard;
    async fn delete_thread(&self, id: &str) -> Heard;
    async fn state(&self, id: &str) -> Heard;
    async fn history(&self, id: &str, limit: u32) -> Heard;
    async fn update_state(&self, id: &str, values: Value, as_node: Option<&str>) -> Heard;

    /// Frames as `{event, data, id}`; of the id, whether there is one.
    async fn stream(&self, id: &str, body: Value) -> Heard;
    async fn join(&self, id: &str, run: &str) -> Heard;
    async fn wait(&self, id: &str, body: Value) -> Heard;
    async fn start(&self, id: &str, body: Value) -> Heard;
    async fn runs(&self, id: &str) -> Heard;
    async fn run(&self, id: &str, run: &str) -> Heard;
    /// With an answer when it has stopped.
    async fn cancel(&self, id: &str, run: &str) -> Heard;

    async fn upload(&self, id: &str, name: &str, bytes: &[u8]) -> Heard;
    async fn uploads(&self, id: &str) -> Heard;
    async fn delete_upload(&self, id: &str, name: &str) -> Heard;
    /// `{bytes, media_type}`.
    async fn artifact(&self, id: &str, path: &str) -> Heard;

    async fn goal(&self, id: &str) -> Heard;
    async fn set_goal(&self, id: &str, objective: &str, most: u32) -> Heard;
    async fn clear_goal(&self, id: &str) -> Heard;
    async fn models(&self) -> Heard;
    async fn show_model(&self, name: &str) -> Heard;
}
