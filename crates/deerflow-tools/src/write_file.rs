//! `write_file`: a whole file, or more at its end.

use crate::workbench::{Wanted, Workbench, explain, parse_path};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::text::middle_cut;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, Verdict};
use deerflow_sandbox::text::encode;
use deerflow_sandbox::{Expect, LineEnding, Sandbox, SandboxError, TextEncoding, TextFile, VirtualPath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Longest error text.
const MAX_ERROR: usize = 2000;
const DESCRIPTION: &str = "\
Write a text file: make it, or replace its whole content. Parent directories are made. With append=true the content is added at \
the end instead.
- Without append one call takes at most 80 KiB. Write a longer file in parts: the first with write_file, each further one with \
append=true.
- To change part of a file use str_replace: it is shorter and safer than writing the file again.
- An existing file keeps its mode, encoding, and Windows line ends.
- Deliverables go to /mnt/user-data/outputs, everything else to /mnt/user-data/workspace.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this file is written. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Absolute path of the file.
    path: String,
    /// The text to write.
    content: String,
    /// Add to the end instead of replacing. Default false.
    #[serde(default)]
    append: bool,
}

pub(crate) struct WriteFile {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

/// What will be written and why it differs from the plain UTF-8 of the content.
#[derive(Debug)]
struct Plan {
    /// SHA-256 of the file now, if there is one.
    before: Option<String>,
    /// The text to append, or the bytes of the whole file.
    write: Write,
    note: Option<String>,
}

#[derive(Debug)]
enum Write {
    Whole(Vec<u8>),
    /// Text in the file's own line ends, and the file's encoding.
    Append(String, TextEncoding),
}

impl WriteFile {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("write_file", DESCRIPTION) }
    }

    fn check_size(&self, path: &VirtualPath, args: &Args) -> Result<(), ToolError> {
        let (size, max) = (args.content.len(), self.bench.limits.write_file_max_bytes);
        if args.append || max == 0 || size <= max {
            return Ok(());
        }
        Err(failed(
            path,
            &format!(
                "the content has {size} bytes and one call may write {max}. Nothing was written. Split it: write the first part, \
                 then add each further part with append=true; or change an existing file with str_replace"
            ),
        ))
    }

    async fn write(&self, sandbox: &dyn Sandbox, path: &VirtualPath, args: &Args) -> Result<ToolOutput, ToolError> {
        let fail = |error: &SandboxError| failed(path, &explain(error, Wanted::File));
        let plan = plan(sandbox, path, args).await.map_err(|error| fail(&error))?;
        match plan.write {
            Write::Whole(bytes) => sandbox.write_bytes(path, bytes, Expect::Any).await,
            Write::Append(text, TextEncoding::Legacy(encoding)) => {
                append_legacy(sandbox, path, &text, TextEncoding::Legacy(encoding)).await
            }
            Write::Append(text, _) => sandbox.append(path, &text).await,
        }
        .map_err(|error| fail(&error))?;
        Ok(done(plan.note.as_deref()))
    }
}

#[async_trait]
impl Tool for WriteFile {
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
        self.check_size(&path, &args).ok()?;
        let plan = plan(&*sandbox, &path, &args).await.ok()?;
        let after = match &plan.write {
            Write::Whole(bytes) => bytes.clone(),
            Write::Append(text, encoding) => {
                let mut bytes = match &plan.before {
                    Some(_) => sandbox.read_bytes(&path, deerflow_sandbox::MAX_TEXT_BYTES).await.ok()?,
                    None => Vec::new(),
                };
                bytes.extend(encode(text, *encoding, false)?);
                bytes
            }
        };
        Some(json!({"before": plan.before, "after": hex_sha256(&after), "note": plan.note}))
    }

    async fn verify(&self, ctx: &ToolContext, args: &JsonMap, fingerprint: &Value) -> Verdict {
        let Ok(args) = args::parse::<Args>(&self.spec, args.clone()) else { return Verdict::NotDone };
        let Ok(sandbox) = self.bench.sandbox(ctx).await else { return Verdict::Unknown };
        let Ok(path) = parse_path(&*sandbox, &args.path) else { return Verdict::NotDone };
        let note = fingerprint.get("note").and_then(Value::as_str);
        match compare(&*sandbox, &path, fingerprint).await {
            Verdict::Done(_) => Verdict::Done(done(note)),
            other => other,
        }
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        let sandbox = self.bench.sandbox(ctx).await?;
        let path = parse_path(&*sandbox, &args.path)?;
        self.check_size(&path, &args)?;
        let _guard = self.bench.lock(ctx, &*sandbox, &path).await?;
        Ok(self.write(&*sandbox, &path, &args).await?)
    }
}

/// Whether a file is what a write would have left, what was there before it, or neither.
pub(crate) async fn compare(sandbox: &dyn Sandbox, path: &VirtualPath, fingerprint: &Value) -> Verdict {
    let recorded = |key: &str| fingerprint.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(after) = recorded("after") else { return Verdict::Unknown };
    let now = match sandbox.sha256(path).await {
        Ok(hash) => Some(hash),
        Err(SandboxError::NotFound { .. }) => None,
        Err(_) => return Verdict::Unknown,
    };
    if now.as_deref() == Some(after.as_str()) {
        Verdict::Done(ToolOutput::default())
    } else if now == recorded("before") {
        Verdict::NotDone
    } else {
        Verdict::Unknown
    }
}

fn failed(path: &VirtualPath, reason: &str) -> ToolError {
    ToolError::Respond(middle_cut(&format!("Failed to write file '{path}': {reason}"), MAX_ERROR))
}

fn done(note: Option<&str>) -> ToolOutput {
    ToolOutput::text(note.map_or_else(|| "OK".to_owned(), |note| format!("OK\n{note}")))
}

fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |text, byte| format!("{text}{byte:02x}"))
}

/// Looks at what is there and decides in which form the content goes to disk.
async fn plan(sandbox: &dyn Sandbox, path: &VirtualPath, args: &Args) -> Result<Plan, SandboxError> {
    let file = match sandbox.read_text(path).await {
        Ok(file) => Some(file),
        Err(SandboxError::NotFound { .. }) => None,
        // Not text, or too much to look at: replaced or added to as it is.
        Err(SandboxError::Binary { .. } | SandboxError::TooLarge { .. }) => {
            let before = Some(sandbox.sha256(path).await?);
            let write = if args.append {
                Write::Append(args.content.clone(), TextEncoding::Utf8)
            } else {
                Write::Whole(args.content.clone().into_bytes())
            };
            return Ok(Plan { before, write, note: None });
        }
        Err(error) => return Err(error),
    };
    let Some(file) = file else {
        let write = Write::Whole(args.content.clone().into_bytes());
        return Ok(Plan { before: None, write, note: None });
    };
    let (text, converted) = with_line_ends(&file, &args.content);
    let kept_line_ends = converted.then_some("Windows line ends (CRLF)");
    let before = Some(file.sha256.clone());
    if args.append {
        let note = kept_line_ends.map(|kept| format!("The file keeps its {kept}."));
        return Ok(Plan { before, write: Write::Append(text, file.encoding), note });
    }
    let plain = file.encoding == TextEncoding::Utf8 && !file.bom;
    let (bytes, kept_encoding) = match encode(&text, file.encoding, file.bom) {
        Some(bytes) => (bytes, (!plain).then(|| encoding_name(&file))),
        // The old encoding lacks a character of the new content.
        None => (text.into_bytes(), None),
    };
    let kept: Vec<String> = kept_line_ends.map(str::to_owned).into_iter().chain(kept_encoding).collect();
    let note = (!kept.is_empty()).then(|| format!("The file keeps its {}.", kept.join(" and ")));
    Ok(Plan { before, write: Write::Whole(bytes), note })
}

fn encoding_name(file: &TextFile) -> String {
    let mark = if file.bom { " with byte order mark" } else { "" };
    format!("encoding ({}{mark})", file.encoding.label())
}

/// The content with the line ends of a file that has only `\r\n`, unless the content has its own.
fn with_line_ends(file: &TextFile, content: &str) -> (String, bool) {
    if file.line_ending == LineEnding::CrLf && content.contains('\n') && !content.contains("\r\n") {
        (content.replace('\n', "\r\n"), true)
    } else {
        (content.to_owned(), false)
    }
}

/// Appends in an encoding that the sandbox would have to guess.
async fn append_legacy(
    sandbox: &dyn Sandbox,
    path: &VirtualPath,
    text: &str,
    encoding: TextEncoding,
) -> Result<deerflow_sandbox::WriteOutcome, SandboxError> {
    let mut bytes = sandbox.read_bytes(path, deerflow_sandbox::MAX_TEXT_BYTES).await?;
    let expect = Expect::Sha256(hex_sha256(&bytes));
    let tail = encode(text, encoding, false)
        .ok_or_else(|| SandboxError::Encoding { path: path.to_string(), encoding: encoding.label().to_owned() })?;
    bytes.extend(tail);
    sandbox.write_bytes(path, bytes, expect).await
}

#[cfg(test)]
mod tests;
