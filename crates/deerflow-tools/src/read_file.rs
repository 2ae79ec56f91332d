//! `read_file`: text of any encoding, and documents as text.

use crate::cut::head_cut;
use crate::workbench::{Wanted, Workbench, explain, parse_path, respond};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_documents::{DocumentKind, decode_text};
use deerflow_sandbox::{MAX_TEXT_BYTES, Sandbox, SandboxError, VirtualPath};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DESCRIPTION: &str = "\
Read a file as text. Text comes as it is, in any encoding. PDF, Word, Excel, PowerPoint and EPUB files come as Markdown; pages \
and slides open with a line `<!-- page N -->`, and start_line and end_line count the lines of that Markdown.
- Without a range you get the file from its start, up to a limit; the end of a cut text names the line to go on from.
- Read a file before you change it.
- To find something in a large file, use grep first, then read the lines around the hits.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this file is read. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Absolute path of the file, for example /mnt/user-data/uploads/report.pdf.
    path: String,
    /// First line to read, counted from 1. Default: the first.
    #[serde(default)]
    start_line: Option<i64>,
    /// Last line to read, inclusive. Default: the last.
    #[serde(default)]
    end_line: Option<i64>,
}

pub(crate) struct ReadFile {
    bench: Arc<Workbench>,
    vision: bool,
    spec: ToolSpec,
}

/// A file's text and what there is to say about it.
struct Loaded {
    text: String,
    notes: Vec<String>,
}

impl ReadFile {
    pub(crate) fn new(bench: Arc<Workbench>, vision: bool) -> Self {
        let hint = if vision { " Images are looked at with view_image." } else { "" };
        let spec = schema::spec::<Args>("read_file", &format!("{DESCRIPTION}{hint}"));
        Self { bench, vision, spec }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        if let Some(note) = impossible_range(args.start_line, args.end_line) {
            return Ok(ToolOutput::text(note));
        }
        let sandbox = self.bench.sandbox(ctx).await?;
        let path = parse_path(&*sandbox, &args.path)?;
        let loaded = tokio::select! {
            () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
            loaded = self.load(&*sandbox, &path) => loaded?,
        };
        let text = show(&loaded, args.start_line, args.end_line, self.bench.limits.read_file_output_max_chars);
        Ok(ToolOutput::text(text))
    }
}

/// A page the user gave is read for what it says. One that is being worked on is read as its source, which edits must match.
fn is_web_page(path: &VirtualPath) -> bool {
    path.is_within(&VirtualPath::uploads()) && DocumentKind::from_name(path.file_name()) == Some(DocumentKind::Html)
}

impl ReadFile {
    async fn load(&self, sandbox: &dyn Sandbox, path: &VirtualPath) -> Result<Loaded, ToolError> {
        match sandbox.read_text(path).await {
            // A document may by chance have only bytes that could be text.
            Ok(file)
                if !is_web_page(path) && !["%PDF-", "PK\x03\x04"].iter().any(|magic| file.text.starts_with(magic)) =>
            {
                Ok(Loaded { text: file.text.replace("\r\n", "\n"), notes: Vec::new() })
            }
            Ok(_) | Err(SandboxError::Binary { .. } | SandboxError::TooLarge { .. }) => {
                self.load_bytes(sandbox, path).await
            }
            Err(error @ SandboxError::NotFound { .. }) => {
                let similar = similar_names(sandbox, path).await;
                Err(ToolError::Respond(format!("{}{similar}", explain(&error, Wanted::File))))
            }
            Err(error) => Err(respond(&error, Wanted::File)),
        }
    }

    /// What is not plain text, or too much of it.
    async fn load_bytes(&self, sandbox: &dyn Sandbox, path: &VirtualPath) -> Result<Loaded, ToolError> {
        let max = self.bench.documents.max_input_bytes().max(MAX_TEXT_BYTES);
        let bytes = match sandbox.read_bytes(path, max).await {
            Ok(bytes) => bytes,
            Err(SandboxError::TooLarge { size, .. }) => return Err(too_large(path, size)),
            Err(error) => return Err(respond(&error, Wanted::File)),
        };
        let size = bytes.len() as u64;
        let name = path.file_name().to_owned();
        let detect = {
            let name = name.clone();
            move || (DocumentKind::detect(&name, &bytes), bytes)
        };
        let detected = tokio::task::spawn_blocking(detect).await;
        let (kind, bytes) = detected.map_err(|error| ToolError::Respond(format!("Cannot read {path}: {error}")))?;
        match kind {
            DocumentKind::Pdf
            | DocumentKind::Docx
            | DocumentKind::Xlsx
            | DocumentKind::Pptx
            | DocumentKind::Epub
            | DocumentKind::Html
                if kind != DocumentKind::Html || is_web_page(path) =>
            {
                let read = self.bench.documents.read(sandbox.id(), &name, bytes).await;
                let document =
                    read.map_err(|error| ToolError::Respond(format!("Cannot read {path} as text: {error}")))?;
                Ok(Loaded { text: document.markdown.clone(), notes: document.warnings.clone() })
            }
            DocumentKind::Image => Err(ToolError::Respond(self.image_refusal(path, size))),
            DocumentKind::Archive => Err(ToolError::Respond(format!(
                "Cannot read {path} as text: it is an archive ({size} bytes); unpack it with bash and read the files inside"
            ))),
            DocumentKind::OldOffice => Err(ToolError::Respond(format!(
                "Cannot read {path} as text: it is an old or unsupported office format; ask for a .docx, .xlsx or .pptx file, or \
                 convert it with bash if a converter is installed"
            ))),
            _ if size > MAX_TEXT_BYTES => Err(too_large(path, size)),
            _ => match decode_text(&bytes) {
                Some(decoded) => Ok(Loaded { text: decoded.text.replace("\r\n", "\n"), notes: Vec::new() }),
                None => Err(ToolError::Respond(format!(
                    "Cannot read {path} as text: it is a binary file ({}, {size} bytes); inspect it with bash, for example with \
                     `file`, `xxd` or `strings`",
                    deerflow_sandbox::text::binary_kind(&bytes)
                ))),
            },
        }
    }

    fn image_refusal(&self, path: &VirtualPath, size: u64) -> String {
        let hint = if self.vision {
            "look at it with view_image"
        } else {
            "this model cannot look at images; inspect it with bash if its facts are needed"
        };
        format!("Cannot read {path} as text: it is an image ({size} bytes); {hint}")
    }
}

fn too_large(path: &VirtualPath, size: u64) -> ToolError {
    ToolError::Respond(format!(
        "{path} is too large to read as a whole ({size} bytes); search it with grep, or take parts with bash (head, tail, sed -n)"
    ))
}

/// Why nothing can be in the range.
fn impossible_range(start: Option<i64>, end: Option<i64>) -> Option<String> {
    match (start, end) {
        (Some(start), _) if start < 1 => Some("(start_line must be >= 1)".to_owned()),
        (_, Some(end)) if end < 1 => Some("(end_line must be >= 1)".to_owned()),
        (Some(start), Some(end)) if start > end => {
            Some(format!("(start_line {start} is greater than end_line {end}; nothing to read)"))
        }
        _ => None,
    }
}

/// The asked lines, within `max` characters.
fn show(loaded: &Loaded, start: Option<i64>, end: Option<i64>, max: usize) -> String {
    let text = loaded.text.as_str();
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let total_lines = text.lines().count();
    let first = start.and_then(|line| usize::try_from(line).ok()).unwrap_or(1).max(1);
    if first > total_lines {
        return "(start_line exceeds file length)".to_owned();
    }
    let last = end.and_then(|line| usize::try_from(line).ok()).unwrap_or(total_lines).min(total_lines);
    let selected;
    let part = if start.is_none() && end.is_none() {
        text
    } else {
        selected = text.lines().skip(first - 1).take(last + 1 - first).collect::<Vec<_>>().join("\n");
        if selected.is_empty() { "(empty)" } else { selected.as_str() }
    };
    let notes: String = loaded.notes.iter().map(|note| format!("\n[note: {note}]")).collect();
    let total = part.chars().count();
    let marker = |chars: usize, whole: usize| {
        let advice = if whole == 0 {
            format!("line {first} is cut: it is too long to show; use grep, or bash to take parts of it")
        } else {
            let reached = first + whole - 1;
            format!(
                "lines {first}-{reached} of {total_lines}. Use start_line and end_line to read a range; go on with start_line={}",
                reached + 1
            )
        };
        format!("\n... [truncated: showing first {chars} of {total} chars, {advice}] ...")
    };
    // Notes come on top of a limit that they would fill.
    let room = if max == 0 { 0 } else { max.saturating_sub(notes.chars().count()).max(max / 2).max(1) };
    let shown = head_cut(part, room, marker).unwrap_or_else(|| part.to_owned());
    format!("{shown}{notes}")
}

/// Names beside a missing file that may be what was meant.
pub(crate) async fn similar_names(sandbox: &dyn Sandbox, path: &VirtualPath) -> String {
    let Some((parent, name)) = path.as_str().rsplit_once('/') else { return String::new() };
    let Ok(parent) = sandbox.parse_path(parent) else { return String::new() };
    let Ok(entries) = sandbox.read_dir(&parent).await else { return String::new() };
    let name = name.to_lowercase();
    let stem = |name: &str| name.rsplit_once('.').map_or(name.to_owned(), |(stem, _)| stem.to_owned());
    let mut scored: Vec<(f64, &str)> = entries
        .iter()
        .map(|entry| {
            let other = entry.name.to_lowercase();
            let score = strsim::normalized_damerau_levenshtein(&name, &other);
            (if stem(&name) == stem(&other) { 1.0 } else { score }, entry.name.as_str())
        })
        .filter(|(score, _)| *score >= 0.6)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<&str> = scored.into_iter().take(3).map(|(_, name)| name).collect();
    if names.is_empty() { String::new() } else { format!("; similar names there: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests;
