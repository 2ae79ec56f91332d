//! `str_replace`: exact text by other text.

use crate::read_file::similar_names;
use crate::workbench::{Wanted, Workbench, explain, parse_path};
use crate::write_file::compare;
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, Verdict};
use deerflow_sandbox::{Expect, Replacement, Sandbox, SandboxError, VirtualPath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Line numbers that a result names.
const MAX_LINES: usize = 10;
const DESCRIPTION: &str = "\
Replace text in a file. `old_str` must be in the file exactly, white space included, and only once: add surrounding lines until \
it is unique, or set replace_all=true. Line ends are matched whichever kind the file has; its encoding, line ends, mode and a \
missing final newline stay. Read the file first. The result says which lines changed.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this text is replaced. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Absolute path of the file.
    path: String,
    /// The text to replace, exactly as in the file.
    old_str: String,
    /// The text to put in its place; empty to delete.
    new_str: String,
    /// Replace every occurrence. Default false.
    #[serde(default)]
    replace_all: bool,
}

pub(crate) struct StrReplace {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl StrReplace {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("str_replace", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for StrReplace {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::Verifiable
    }

    async fn fingerprint(&self, ctx: &ToolContext, args: &JsonMap) -> Option<Value> {
        let args: Args = args::parse(&self.spec, args.clone()).ok()?;
        let sandbox = self.bench.sandbox(ctx).await.ok()?;
        let path = parse_path(&*sandbox, &args.path).ok()?;
        let lines = lines_of(&*sandbox, &path, &args).await.ok()?;
        let edit = Replacement { dry_run: true, ..replacement(&args) };
        let outcome = sandbox.replace_text(&path, edit).await.ok()?;
        let summary = summary(outcome.replacements, &lines.numbers);
        Some(json!({"before": outcome.sha256_before, "after": outcome.sha256_after, "summary": summary}))
    }

    async fn verify(&self, ctx: &ToolContext, args: &JsonMap, fingerprint: &Value) -> Verdict {
        let Ok(args) = args::parse::<Args>(&self.spec, args.clone()) else { return Verdict::NotDone };
        let Ok(sandbox) = self.bench.sandbox(ctx).await else { return Verdict::Unknown };
        let Ok(path) = parse_path(&*sandbox, &args.path) else { return Verdict::NotDone };
        match compare(&*sandbox, &path, fingerprint).await {
            Verdict::Done(_) => {
                let summary = fingerprint.get("summary").and_then(Value::as_str).unwrap_or("replaced");
                Verdict::Done(done(summary))
            }
            other => other,
        }
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        if args.old_str.is_empty() {
            return Err(ToolError::respond(
                "old_str is empty; nothing was changed. Name the text to replace, or use write_file for a new file or with \
                 append=true to add at the end",
            ));
        }
        let sandbox = self.bench.sandbox(ctx).await?;
        let path = parse_path(&*sandbox, &args.path)?;
        let _guard = self.bench.lock(ctx, &*sandbox, &path).await?;
        let output = match replace(&*sandbox, &path, &args).await {
            Ok(summary) => done(&summary),
            Err(error) => return Err(ToolError::Respond(tell(&*sandbox, &path, &args, &error).await)),
        };
        Ok(output)
    }
}

fn replacement(args: &Args) -> Replacement {
    let (old, new) = (args.old_str.as_str(), args.new_str.as_str());
    if args.replace_all { Replacement::all(old, new) } else { Replacement::one(old, new) }
}

async fn replace(sandbox: &dyn Sandbox, path: &VirtualPath, args: &Args) -> Result<String, SandboxError> {
    let lines = lines_of(sandbox, path, args).await?;
    // The lines told are those of the version that is edited.
    let edit = Replacement { expect: Expect::Sha256(lines.sha256), ..replacement(args) };
    let outcome = sandbox.replace_text(path, edit).await?;
    Ok(summary(outcome.replacements, &lines.numbers))
}

fn done(summary: &str) -> ToolOutput {
    ToolOutput::text(format!("OK\n{summary}"))
}

fn summary(count: usize, lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().take(MAX_LINES).map(ToString::to_string).collect();
    let more = if lines.len() > MAX_LINES { ", …" } else { "" };
    match count {
        1 => format!("replaced 1 occurrence at line {}", numbers.join(", ")),
        count => format!("replaced {count} occurrences at lines {}{more}", numbers.join(", ")),
    }
}

/// Where the old text is.
struct Lines {
    numbers: Vec<usize>,
    sha256: String,
}

async fn lines_of(sandbox: &dyn Sandbox, path: &VirtualPath, args: &Args) -> Result<Lines, SandboxError> {
    let file = sandbox.read_text(path).await?;
    let text = file.text.replace("\r\n", "\n");
    let old = args.old_str.replace("\r\n", "\n");
    let mut numbers = Vec::new();
    let (mut line, mut from) = (1, 0);
    for (at, _) in text.match_indices(&old) {
        line += text[from..at].matches('\n').count();
        from = at;
        numbers.push(line);
    }
    Ok(Lines { numbers, sha256: file.sha256 })
}

async fn tell(sandbox: &dyn Sandbox, path: &VirtualPath, args: &Args, error: &SandboxError) -> String {
    let text = explain(error, Wanted::File);
    match error {
        SandboxError::NotFound { .. } => format!("{text}{}", similar_names(sandbox, path).await),
        SandboxError::NoMatch { .. } => format!("{text}{}", near_miss(sandbox, path, &args.old_str).await),
        SandboxError::AmbiguousMatch { count, matches, .. } => {
            let mut lines = vec![format!(
                "String to replace occurs {count} times in file: {path}. Nothing was changed. Give more of the surrounding text so \
                 that it is unique, or set replace_all=true. It occurs at:"
            )];
            lines.extend(matches.iter().map(|(number, line)| format!("  line {number}: {line}")));
            if *count > matches.len() {
                lines.push(format!("  … and {} more", count - matches.len()));
            }
            lines.join("\n")
        }
        SandboxError::InvalidEdit { .. } => "old_str and new_str are the same; nothing was changed".to_owned(),
        SandboxError::Binary { .. } => format!("{path} is not a text file; nothing was changed"),
        _ => text,
    }
}

/// Why the text was perhaps not found: the same words with other white space. Only told, never used for matching.
async fn near_miss(sandbox: &dyn Sandbox, path: &VirtualPath, old: &str) -> String {
    const READ: &str = "; matching is exact: read the file again and copy the text as it is";
    let Ok(file) = sandbox.read_text(path).await else { return READ.to_owned() };
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else { return READ.to_owned() };
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = squeeze(wanted);
    match file.text.lines().position(|line| squeeze(line).contains(&wanted)) {
        Some(index) => format!(
            "; line {} has the same words as its first line, so white space or a later line differs. Read the lines around it and \
             copy the text as it is",
            index + 1
        ),
        None => READ.to_owned(),
    }
}

#[cfg(test)]
mod tests;
