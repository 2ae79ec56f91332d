//! What a result refers to.

use super::handle::handle;
use deerflow_core::state::ArtifactEntry;
use deerflow_core::{Content, ContentBlock, Message, ToolStatus};
use serde_json::Value;

/// Things of one result that get a handle. A listing of a thousand files is no thousand artifacts, and would push out all
/// others.
const MAX_PER_RESULT: usize = 20;
/// A payload beyond this, in bytes, gets no handle: put into an argument it would be no use, and it is never cut.
const MAX_DATA_BYTES: usize = 256 * 1024;
/// Longest reference, in bytes.
const MAX_REF_BYTES: usize = 4096;

const FILE_KEYS: [&str; 6] = ["file", "files", "file_path", "path", "url", "urls"];
const TASK_KEYS: [&str; 2] = ["task_id", "job_id"];
const FILE_ENDINGS: [&str; 17] = [
    "png", "jpg", "jpeg", "gif", "html", "pdf", "csv", "json", "txt", "log", "md", "xls", "xlsx", "doc", "docx", "zip",
    "pptx",
];
/// Punctuation of the prose around a reference.
const NOISE: &[char] = &['.', ',', ';', ':', ')', ']', '}', '"', '\'', '`', '!', '?', '>'];

/// Where a result belongs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Origin<'a> {
    pub(in super::super) thread: &'a str,
    /// Place among results of the same call id, for a message without an id of its own.
    pub(in super::super) call_index: u32,
    /// RFC 3339, UTC.
    pub(in super::super) now: &'a str,
}

struct Found {
    kind: &'static str,
    real: String,
    label: String,
    mime: Option<String>,
}

impl Found {
    fn new(kind: &'static str, real: &str) -> Self {
        let last = real.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let label = if last.is_empty() { real } else { last };
        Self { kind, real: real.to_owned(), label: label.to_owned(), mime: None }
    }
}

/// The artifacts of a result; none for one that failed. Structured content first, then blocks and text in their order.
pub(in super::super) fn extract(message: &Message, origin: Origin<'_>, in_text: bool) -> Vec<ArtifactEntry> {
    let Some(part) = message.as_tool().filter(|part| part.status != ToolStatus::Error) else { return Vec::new() };
    let tool = message.name.as_deref().unwrap_or("unknown");
    let mut found = Vec::new();
    if let Some(structured) = part.artifact.as_ref().and_then(|a| a.get("structured_content")).filter(|s| !s.is_null())
    {
        from_structured(structured, tool, &mut found);
    }
    match &message.content {
        Content::Text(text) if in_text => from_text(text, &mut found),
        Content::Text(_) => {}
        Content::Blocks(blocks) => blocks.iter().for_each(|block| from_block(block, in_text, &mut found)),
    }
    let entries = found.into_iter().take(MAX_PER_RESULT).enumerate();
    entries
        .map(|(ordinal, found)| ArtifactEntry {
            handle: handle(origin.thread, &part.tool_call_id, origin.call_index, ordinal, message.id.as_deref()),
            tool_name: tool.to_owned(),
            tool_call_id: part.tool_call_id.clone(),
            call_index: origin.call_index,
            artifact_type: found.kind.to_owned(),
            display_name: found.label,
            real_ref: found.real,
            mime_type: found.mime,
            created_at: origin.now.to_owned(),
            consumed_by: Vec::new(),
        })
        .collect()
}

fn from_structured(structured: &Value, tool: &str, found: &mut Vec<Found>) {
    let mut refs = Vec::new();
    collect(structured, &mut refs);
    if refs.is_empty() {
        let payload = structured.to_string();
        if payload.len() <= MAX_DATA_BYTES {
            let label = format!("{tool} structured result");
            found.push(Found { kind: "data", real: payload, label, mime: Some("application/json".to_owned()) });
        } else {
            tracing::debug!(tool, bytes = payload.len(), "structured result is too large for a handle");
        }
    }
    for (kind, real) in refs.into_iter().filter(|(_, real)| is_reference(real)) {
        add(found, Found::new(kind, real));
    }
}

/// Strings under the well-known keys, however deep.
fn collect<'a>(value: &'a Value, refs: &mut Vec<(&'static str, &'a str)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, refs)),
        Value::Object(map) => {
            for (key, value) in map {
                let kind = if FILE_KEYS.contains(&key.as_str()) {
                    "file"
                } else if TASK_KEYS.contains(&key.as_str()) {
                    "task"
                } else {
                    collect(value, refs);
                    continue;
                };
                let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for item in items {
                    match item {
                        Value::String(text) => refs.push((kind, text)),
                        other => collect(other, refs),
                    }
                }
            }
        }
        _ => {}
    }
}

fn from_block(block: &ContentBlock, in_text: bool, found: &mut Vec<Found>) {
    if let Some(text) = block.text() {
        if in_text {
            from_text(text, found);
        }
        return;
    }
    let value = block.to_value();
    let (kind, source) = match block.kind() {
        "file" => ("file", value.get("source")),
        "image" => ("image", value.get("source")),
        "image_url" => ("image", value.get("image_url")),
        _ => return,
    };
    let text = |key: &str| source.and_then(|s| s.get(key)).and_then(Value::as_str);
    if let Some(url) = text("url").filter(|url| is_reference(url)) {
        add(found, Found { mime: text("mime_type").map(str::to_owned), ..Found::new(kind, url) });
    }
}

/// Paths of the sandbox, and addresses of files.
fn from_text(text: &str, found: &mut Vec<Found>) {
    let ends = |c: char| c.is_whitespace() || "\"`<>'，。；：、！？（）「」《》“”".contains(c);
    for start in ["/mnt/user-data/", "http://", "https://"] {
        for (at, _) in text.match_indices(start) {
            // The tail of a longer name or address is none.
            if text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'))
            {
                continue;
            }
            let rest = &text[at..];
            let real = rest[..rest.find(ends).unwrap_or(rest.len())].trim_end_matches(NOISE);
            let good = if start.starts_with('/') { real.len() > start.len() } else { has_file_ending(real) };
            if good && is_reference(real) {
                add(found, Found::new("file", real));
            }
        }
    }
}

fn has_file_ending(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.splitn(4, '/').nth(3).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(_, end)| FILE_ENDINGS.contains(&end.to_ascii_lowercase().as_str()))
}

fn add(found: &mut Vec<Found>, new: Found) {
    if !found.iter().any(|old| old.real == new.real) {
        found.push(new);
    }
}

/// `http` and `https` addresses, absolute paths, and plain ids. Not `data:` and the like, which carry their content with
/// them, and not `//host`.
fn is_reference(text: &str) -> bool {
    if text.trim().is_empty() || text.len() > MAX_REF_BYTES || text.starts_with("//") || text.contains(char::is_control)
    {
        return false;
    }
    match text.split_once(':') {
        Some((scheme, rest)) => {
            let lower = scheme.to_ascii_lowercase();
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
            !is_scheme || (matches!(lower.as_str(), "http" | "https") && rest.starts_with("//"))
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn found(message: Message, in_text: bool) -> Vec<(String, String, String)> {
        let origin = Origin { thread: "t", call_index: 0, now: "2026-01-01T00:00:00Z" };
        let entries = extract(&message, origin, in_text);
        let handles: std::collections::BTreeSet<_> = entries.iter().map(|e| e.handle.clone()).collect();
        assert_eq!(handles.len(), entries.len(), "each its own handle");
        entries.into_iter().map(|e| (e.artifact_type, e.display_name, e.real_ref)).collect()
    }
    fn text(text: &str) -> Vec<String> {
        found(Message::tool(text, "c", "t"), true).into_iter().map(|(_, _, real)| real).collect()
    }
    fn structured(value: Value) -> Vec<(String, String, String)> {
        let mut message = Message::tool("", "c", "t");
        message.as_tool_mut().unwrap().artifact = Some(json!({"structured_content": value}));
        found(message, true)
    }
    fn row(kind: &str, label: &str, real: &str) -> (String, String, String) {
        (kind.into(), label.into(), real.into())
    }

    #[test]
    fn text_is_looked_through_with_care() {
        assert_eq!(
            text(
                "Saved (`/mnt/user-data/outputs/a.png`), see https://x.example/r/b.PDF?v=1#p, https://x.example/page and \
                  \"/mnt/user-data/outputs/a.png\". /mnt/user-data/ /x/mnt/user-data/y https://x.example/c.csv."
            ),
            ["/mnt/user-data/outputs/a.png", "https://x.example/r/b.PDF?v=1#p", "https://x.example/c.csv"]
        );
        assert_eq!(text("https://evil.json and https://a.zip/"), [""; 0], "a host is no file");
        assert_eq!(text("文件：/mnt/user-data/outputs/报告.md，内容"), ["/mnt/user-data/outputs/报告.md"]);
        assert_eq!(found(Message::tool("/mnt/user-data/outputs/a", "c", "t"), false), []);
        assert_eq!(found(Message::tool_error("/mnt/user-data/outputs/a", "c", "t"), true), []);
    }

    #[test]
    fn structured_content_is_searched_at_any_depth() {
        let value = json!({"result": {"files": ["/a/b.txt", {"url": "https://x.example/"}, "data:text/plain,x"],
                                      "job_id": "job-7", "note": "/not/taken"}, "path": "//host/x", "url": "ftp://x"});
        assert_eq!(
            structured(value),
            [
                row("file", "b.txt", "/a/b.txt"),
                row("file", "x.example", "https://x.example/"),
                row("task", "job-7", "job-7")
            ]
        );
        assert_eq!(structured(json!({"path": "blob:x"})), [], "known keys, none of them usable");
        assert_eq!(structured(Value::Null), []);
    }

    #[test]
    fn a_payload_without_references_is_kept_whole_or_not_at_all() {
        let rows = json!({"rows": [[1, "界"]]});
        assert_eq!(structured(rows.clone()), [row("data", "t structured result", &rows.to_string())]);
        assert_eq!(structured(json!({"rows": "x".repeat(MAX_DATA_BYTES)})), []);
    }

    #[test]
    fn blocks_with_an_address_count() {
        let blocks = json!([
            {"type": "image", "source": {"url": "https://x.example/i", "mime_type": "image/png"}},
            {"type": "file", "source": {"url": "/mnt/user-data/outputs/f"}},
            {"type": "image", "source": {"url": "data:image/png;base64,AA"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/j"}},
            {"type": "text", "text": "/mnt/user-data/outputs/g"},
            {"type": "image"}
        ]);
        let content: Content = serde_json::from_value(blocks).unwrap();
        let got = found(Message::tool(content, "c", "t"), true);
        assert_eq!(
            got,
            [
                row("image", "i", "https://x.example/i"),
                row("file", "f", "/mnt/user-data/outputs/f"),
                row("image", "j", "https://x.example/j"),
                row("file", "g", "/mnt/user-data/outputs/g")
            ]
        );
    }

    #[test]
    fn a_long_listing_does_not_flood() {
        let listing: String = (0..500).map(|n| format!("/mnt/user-data/workspace/{n}\n")).collect();
        assert_eq!(text(&listing).len(), MAX_PER_RESULT);
    }
}
