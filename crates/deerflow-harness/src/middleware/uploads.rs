//! Tells the model which files came with the current message.
//!
//! Files of earlier messages are not repeated: `list_uploaded_files` finds them.

use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, JsonMap, StateUpdate, ThreadState};
use deerflow_documents::outline;
use deerflow_sandbox::ThreadPaths;
use deerflow_tools::neutralise::neutralise;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the block in front of the user's text.
pub const UPLOADS_OPEN: &str = "<current_uploads>";
/// Closes it.
pub const UPLOADS_CLOSE: &str = "</current_uploads>";

/// Files described in full; the rest is counted.
const LISTED: usize = 10;
/// Headings shown of one file.
const HEADINGS: usize = 20;
/// Bytes of a Markdown companion looked at for its outline.
const OUTLINE_BYTES: u64 = 4 * 1024 * 1024;

/// Owns `uploaded_files`.
#[derive(Debug)]
pub struct UploadsMiddleware {
    base: PathBuf,
}

impl UploadsMiddleware {
    /// Looks for files under `base` (`DEER_FLOW_HOME`).
    #[must_use]
    pub fn new(base: PathBuf) -> Self {
        Self { base }
    }
}

#[async_trait]
impl Middleware for UploadsMiddleware {
    fn name(&self) -> &'static str {
        "UploadsMiddleware"
    }

    async fn before_agent(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let failed = |error: &dyn std::fmt::Display| AgentError::middleware("UploadsMiddleware", error);
        let mut update = StateUpdate { uploaded_files: Some(vec![]), ..StateUpdate::none() };
        let Some(last) = state.messages.last().filter(|m| m.is_human()) else { return Ok(Hook::update(update)) };
        let claimed = last.additional_kwargs.get(kwargs::FILES).and_then(Value::as_array).cloned().unwrap_or_default();
        if claimed.is_empty() {
            return Ok(Hook::update(update));
        }
        let paths =
            ThreadPaths::new(&self.base, ctx.user_id.as_str(), ctx.thread_id.as_str()).map_err(|e| failed(&e))?;
        let found =
            tokio::task::spawn_blocking(move || look(&claimed, &paths.uploads())).await.map_err(|e| failed(&e))?;
        if found.is_empty() {
            return Ok(Hook::update(update));
        }
        let mut message = (**last).clone();
        let text = message.text().into_owned();
        message.additional_kwargs.entry(kwargs::ORIGINAL_USER_CONTENT).or_insert(Value::String(text));
        message.content = message.content.prepend_text(&describe(&found));
        update.uploaded_files = Some(found.into_iter().map(|f| f.entry).collect());
        update.messages.push(Arc::new(message));
        Ok(Hook::update(update))
    }
}

struct Found {
    entry: JsonMap,
    name: String,
    size: u64,
    companion: Option<String>,
    headings: Vec<String>,
}

/// Those of the claimed files that are really there. Runs on a blocking thread.
fn look(claimed: &[Value], uploads: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for file in claimed.iter().filter_map(Value::as_object) {
        let Some(name) = file.get("filename").and_then(Value::as_str).filter(|n| is_plain_name(n)) else { continue };
        let Ok(meta) = std::fs::symlink_metadata(uploads.join(name)) else { continue };
        if !meta.is_file() {
            continue;
        }
        let companion = companion_of(file, name, uploads);
        let headings = companion
            .as_deref()
            .or(is_markdown(name).then_some(name))
            .map(|n| headings(&uploads.join(n)))
            .unwrap_or_default();
        let mut entry = JsonMap::new();
        entry.insert("filename".into(), json!(name));
        entry.insert("size".into(), json!(meta.len()));
        entry.insert("path".into(), json!(format!("/mnt/user-data/uploads/{name}")));
        entry.insert("extension".into(), json!(extension(name)));
        found.push(Found { entry, name: name.to_owned(), size: meta.len(), companion, headings });
    }
    found
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['/', '\\', '\0'])
        && name != "."
        && name != ".."
        && !name.starts_with(".upload-")
}

fn extension(name: &str) -> String {
    Path::new(name).extension().map(|e| format!(".{}", e.to_string_lossy().to_lowercase())).unwrap_or_default()
}

fn is_markdown(name: &str) -> bool {
    matches!(extension(name).as_str(), ".md" | ".markdown")
}

/// The Markdown made from the file: the one the upload names, if it is a plain file beside it.
fn companion_of(file: &JsonMap, name: &str, uploads: &Path) -> Option<String> {
    let named = file.get("markdown_file").and_then(Value::as_str)?;
    let real = named != name
        && is_plain_name(named)
        && std::fs::symlink_metadata(uploads.join(named)).is_ok_and(|m| m.is_file());
    real.then(|| named.to_owned())
}

fn headings(path: &Path) -> Vec<String> {
    if std::fs::metadata(path).map_or(true, |m| m.len() > OUTLINE_BYTES) {
        return Vec::new();
    }
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    outline(&text).entries.iter().take(HEADINGS).map(|e| format!("line {}: {}", e.line, e.title)).collect()
}

fn human_size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let kib = bytes as f64 / 1024.0;
    if kib < 1024.0 { format!("{kib:.1} KB") } else { format!("{:.1} MB", kib / 1024.0) }
}

fn describe(found: &[Found]) -> String {
    let mut text = format!("{UPLOADS_OPEN}\nFiles uploaded with this message:\n");
    for file in found.iter().take(LISTED) {
        let name = neutralise(&file.name);
        let _ = write!(text, "\n- {name} ({})\n  Path: /mnt/user-data/uploads/{name}\n", human_size(file.size));
        if let Some(companion) = &file.companion {
            let _ = writeln!(text, "  Text version: /mnt/user-data/uploads/{}", neutralise(companion));
        }
        if !file.headings.is_empty() {
            let _ = writeln!(text, "  Outline:");
            for heading in &file.headings {
                let _ = writeln!(text, "    {}", neutralise(heading));
            }
        }
    }
    if found.len() > LISTED {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for file in &found[LISTED..] {
            *kinds.entry(extension(&file.name)).or_default() += 1;
        }
        let rest: Vec<String> =
            kinds.iter().map(|(kind, n)| format!("{n} {}", if kind.is_empty() { "other" } else { kind })).collect();
        let _ = writeln!(
            text,
            "\n… and {} more: {}. Use list_uploaded_files to see them.",
            found.len() - LISTED,
            rest.join(", ")
        );
    }
    text.push_str("\nRead them with read_file (it turns PDF and Office files into text; give line ranges for long ones) and search them with grep.\n");
    text.push_str(UPLOADS_CLOSE);
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use deerflow_core::Message;
    use pretty_assertions::assert_eq;

    async fn run(files: Value, names: &[&str]) -> (StateUpdate, String) {
        let home = tempfile::tempdir().unwrap();
        let ctx = testing::context();
        let paths = ThreadPaths::new(home.path(), ctx.user_id.as_str(), ctx.thread_id.as_str()).unwrap();
        paths.ensure().unwrap();
        for name in names {
            std::fs::write(paths.uploads().join(name), "# One\ntext\n## Two <memory>\n").unwrap();
        }
        let message = Message::human("read them").with_id("m").with_kwarg(kwargs::FILES, files);
        let state = ThreadState { messages: vec![Arc::new(message)], ..Default::default() };
        let hook = UploadsMiddleware::new(home.path().to_owned()).before_agent(&ctx, &state).await.unwrap();
        let text = hook.update.messages.first().map(|m| m.text().into_owned()).unwrap_or_default();
        (hook.update, text)
    }

    #[tokio::test]
    async fn only_files_that_are_there_are_listed_and_their_text_is_harmless() {
        let files = json!([
            {"filename": "a.md", "size": 1}, {"filename": "../../etc/passwd"}, {"filename": "gone.pdf"}, "x",
            {"filename": "b.pdf", "markdown_file": "b_1.md"}, {"filename": ".upload-1.part"}
        ]);
        let (update, text) = run(files, &["a.md", "b.pdf", "b_1.md", ".upload-1.part"]).await;
        let listed: Vec<_> =
            update.uploaded_files.unwrap().iter().map(|f| f["filename"].as_str().unwrap().to_owned()).collect();
        assert_eq!(listed, ["a.md", "b.pdf"]);
        assert!(text.contains("- b.pdf (0.0 KB)\n  Path: /mnt/user-data/uploads/b.pdf\n  Text version: /mnt/user-data/uploads/b_1.md\n"), "{text}");
        assert!(text.contains("    line 3: Two &lt;memory&gt;"), "{text}");
        assert!(text.ends_with("</current_uploads>\n\nread them"), "{text}");
        let message = &update.messages[0];
        assert_eq!(message.additional_kwargs[kwargs::ORIGINAL_USER_CONTENT], "read them");
        assert_eq!(message.id(), "m");
    }

    /// BR-084
    #[tokio::test]
    async fn odd_names_survive_the_prompt() {
        let names = ["photo (1).png", "a \"b\", c.txt", "100% sure.txt", "-rf.txt", "测试.pdf"];
        let files: Vec<Value> = names.iter().map(|n| json!({"filename": n})).collect();
        let (update, text) = run(json!(files), &names).await;
        assert_eq!(update.uploaded_files.unwrap().len(), names.len());
        for name in names {
            assert!(text.contains(&format!("  Path: /mnt/user-data/uploads/{name}\n")), "{name} in {text}");
        }
    }

    #[tokio::test]
    async fn a_turn_without_files_clears_the_last_one_and_many_are_counted() {
        let (update, text) = run(json!([]), &[]).await;
        assert_eq!(update.uploaded_files, Some(vec![]));
        assert_eq!(text, "");
        let names: Vec<String> = (0..13).map(|n| format!("f{n:02}.csv")).collect();
        let files: Vec<Value> = names.iter().map(|n| json!({"filename": n})).collect();
        let (update, text) = run(json!(files), &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(update.uploaded_files.unwrap().len(), 13);
        assert!(text.contains("… and 3 more: 3 .csv."), "{text}");
    }
}
