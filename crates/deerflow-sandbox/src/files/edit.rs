//! Exact replacement of text that keeps all else of a file.

use std::ops::Range;
use std::sync::PoisonError;
use std::time::Duration;

use similar::TextDiff;

use super::ThreadFiles;
use super::read::sha256_hex;
use crate::sandbox::Replacement;
use crate::text::{self, LineEnding};
use crate::{SandboxError, VirtualPath};

const MAX_LISTED: usize = 10;
const MAX_DIFF_LINES: usize = 60;
const MAX_DIFFED: usize = 1 << 20;

/// What an edit did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditOutcome {
    /// Occurrences replaced.
    pub replacements: usize,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// Unified diff, cut after 60 lines; empty for files too large to compare.
    pub diff: String,
    /// SHA-256 of the bytes before, lower-case hex.
    pub sha256_before: String,
    /// SHA-256 of the bytes after, lower-case hex.
    pub sha256_after: String,
}

impl ThreadFiles {
    /// Replaces exact text in a file.
    ///
    /// # Errors
    /// See [`crate::Sandbox::replace_text`].
    pub fn replace_text(&self, path: &VirtualPath, edit: &Replacement) -> Result<EditOutcome, SandboxError> {
        let invalid = |reason| SandboxError::InvalidEdit { path: path.to_string(), reason };
        if edit.old.is_empty() {
            return Err(invalid("the text to replace is empty"));
        }
        if edit.old == edit.new {
            return Err(invalid("the old and the new text are the same"));
        }
        let found = self.resolve_for_write(path)?;
        if found.stat.is_none() {
            return Err(SandboxError::NotFound { path: path.to_string() });
        }
        let lock = self.lock_of(&found.path);
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.read_resolved(path, &found)?;
        self.check_expected(path, &found, &edit.expect)?;
        let Some(decoded) = text::decode(&bytes) else {
            let kind = text::binary_kind(&bytes);
            return Err(SandboxError::Binary { path: path.to_string(), kind, size: bytes.len() as u64 });
        };
        let (after, replacements) = replace(path.as_str(), &decoded.text, edit)?;
        let encoding_error =
            || SandboxError::Encoding { path: path.to_string(), encoding: decoded.encoding.label().to_owned() };
        let unchanged = text::encode(&decoded.text, decoded.encoding, decoded.bom);
        if unchanged.as_deref() != Some(&bytes) {
            return Err(encoding_error());
        }
        let encoded = text::encode(&after, decoded.encoding, decoded.bom).ok_or_else(encoding_error)?;
        let (diff, added, removed) = summarise(path.as_str(), &decoded.text, &after);
        if !edit.dry_run {
            self.replace_file(path, &found, &mut encoded.as_slice(), encoded.len() as u64)?;
        }
        Ok(EditOutcome {
            replacements,
            added,
            removed,
            diff,
            sha256_before: sha256_hex(&bytes),
            sha256_after: sha256_hex(&encoded),
        })
    }
}

/// The text after the edit and how many places changed.
fn replace(path: &str, text: &str, edit: &Replacement) -> Result<(String, usize), SandboxError> {
    let ending = text::line_ending(text);
    let matches = find(text, &edit.old, ending);
    match matches.len() {
        0 => return Err(SandboxError::NoMatch { path: path.to_owned() }),
        1 => {}
        _ if edit.replace_all => {}
        count => {
            let lines = matches.iter().take(MAX_LISTED).map(|range| line_at(text, range.start)).collect();
            return Err(SandboxError::AmbiguousMatch { path: path.to_owned(), count, matches: lines });
        }
    }
    let mut after = String::with_capacity(text.len() + edit.new.len());
    let mut from = 0;
    for range in &matches {
        after.push_str(&text[from..range.start]);
        after.push_str(&with_ending(&edit.new, &text[range.clone()], ending));
        from = range.end;
    }
    after.push_str(&text[from..]);
    Ok((after, matches.len()))
}

/// Where `old` is in `text`, without overlaps. In a text with `\r\n`, a line end of `old` matches either kind.
fn find(text: &str, old: &str, ending: LineEnding) -> Vec<Range<usize>> {
    if !matches!(ending, LineEnding::CrLf | LineEnding::Mixed) || !old.contains('\n') {
        return text.match_indices(old).map(|(at, found)| at..at + found.len()).collect();
    }
    let plain = text.replace("\r\n", "\n");
    // Positions in `plain` of the line ends that lost a carriage return, in order.
    let mut shortened = Vec::new();
    for (at, _) in text.match_indices("\r\n") {
        shortened.push(at - shortened.len());
    }
    let original = |position: usize| position + shortened.partition_point(|end| *end < position);
    let old = old.replace("\r\n", "\n");
    plain.match_indices(&old).map(|(at, found)| original(at)..original(at + found.len())).collect()
}

/// The new text with the line ends of the place it goes to.
fn with_ending(new: &str, replaced: &str, ending: LineEnding) -> String {
    let crlf = match ending {
        LineEnding::CrLf => true,
        LineEnding::Mixed => replaced.contains("\r\n"),
        LineEnding::None | LineEnding::Lf => return new.to_owned(),
    };
    let plain = new.replace("\r\n", "\n");
    if crlf { plain.replace('\n', "\r\n") } else { plain }
}

fn line_at(text: &str, position: usize) -> (usize, String) {
    let number = text[..position].bytes().filter(|b| *b == b'\n').count() + 1;
    let start = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default().trim();
    (number, line.chars().take(80).collect())
}

/// Unified diff and the count of lines added and removed.
fn summarise(path: &str, before: &str, after: &str) -> (String, usize, usize) {
    if before.len() + after.len() > MAX_DIFFED {
        return (String::new(), 0, 0);
    }
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(before, after);
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            similar::ChangeTag::Insert => added += 1,
            similar::ChangeTag::Delete => removed += 1,
            similar::ChangeTag::Equal => {}
        }
    }
    let unified = diff.unified_diff().context_radius(2).header(path, path).to_string();
    let lines: Vec<&str> = unified.lines().collect();
    let mut shown = lines.iter().take(MAX_DIFF_LINES).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > MAX_DIFF_LINES {
        shown.push_str(&format!("\n… {} more lines", lines.len() - MAX_DIFF_LINES));
    }
    (shown, added, removed)
}
