//! Criteria of a task that can be checked without believing anybody.

use super::LIMITATION;
use super::commands::{CommandRun, is_command};
use deerflow_core::text::{ellipsis, head};
use deerflow_sandbox::{FileKind, MAX_TEXT_BYTES, Sandbox, SandboxError, VirtualPath};
use deerflow_tools::neutralise::neutralise;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const SOURCE: &str = "acceptance_checklist";
const REQUIREMENT: &str = "delegation_acceptance_criteria";
/// Criteria of one task.
const MAX_CRITERIA: usize = 20;
const MAX_CRITERION_CHARS: usize = 500;
const MAX_DETAIL_CHARS: usize = 160;
/// For one look at one file.
const FILE_LIMIT: Duration = Duration::from_secs(30);

/// How a task's criteria stand. Advisory: what could not be checked is said to be unchecked, never passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceVerdict {
    /// Always `acceptance_checklist`.
    pub source: String,
    /// Always `delegation_acceptance_criteria`.
    pub requirement: String,
    /// One for each criterion, in order.
    pub leaves: Vec<AcceptanceLeaf>,
    /// Criteria that nothing here can check.
    pub unchecked: Vec<String>,
    /// All were checked and hold.
    pub all_hold: bool,
}

/// One criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceLeaf {
    /// Its text, at most 500 characters.
    pub criterion: String,
    /// `file_exists`, `file_non_empty`, `file_json_valid`, `file_written`, `command_ok`, `tests_passed` or `undecidable`.
    pub family: String,
    /// Whether it was checked.
    pub checked: bool,
    /// Whether it was checked and holds.
    pub holds: bool,
    /// What was found, at most 160 characters.
    pub detail: String,
}

/// What a criterion asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check<'a> {
    File(FileCheck, &'a str),
    Command { command: &'a str, tests: bool },
    Undecidable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileCheck {
    Exists,
    NonEmpty,
    ValidJson,
    Written,
}

/// Whether a check could be made, and what it found.
enum Finding {
    Holds(String),
    Fails(String),
    Unchecked(String),
}

impl<'a> Check<'a> {
    /// `file:PATH exists`, `file:PATH non-empty`, `file:PATH valid-json`, `file_written:PATH`, `command_ok:COMMAND`,
    /// `tests_passed:COMMAND`; anything else is for people.
    fn parse(criterion: &'a str) -> Self {
        let Some((family, rest)) = criterion.split_once(':') else { return Self::Undecidable };
        let rest = rest.trim();
        if rest.is_empty() {
            return Self::Undecidable;
        }
        match family.trim().to_ascii_lowercase().as_str() {
            "file" => {
                match rest.rsplit_once(char::is_whitespace).map(|(path, mode)| (path.trim(), mode.to_ascii_lowercase()))
                {
                    Some((path, mode)) => match mode.as_str() {
                        "exists" => Self::File(FileCheck::Exists, path),
                        "non-empty" => Self::File(FileCheck::NonEmpty, path),
                        "valid-json" => Self::File(FileCheck::ValidJson, path),
                        _ => Self::Undecidable,
                    },
                    None => Self::Undecidable,
                }
            }
            "file_written" => Self::File(FileCheck::Written, rest),
            "command_ok" => Self::Command { command: rest, tests: false },
            "tests_passed" => Self::Command { command: rest, tests: true },
            _ => Self::Undecidable,
        }
    }

    fn family(self) -> &'static str {
        match self {
            Self::File(FileCheck::Exists, _) => "file_exists",
            Self::File(FileCheck::NonEmpty, _) => "file_non_empty",
            Self::File(FileCheck::ValidJson, _) => "file_json_valid",
            Self::File(FileCheck::Written, _) => "file_written",
            Self::Command { tests: false, .. } => "command_ok",
            Self::Command { tests: true, .. } => "tests_passed",
            Self::Undecidable => "undecidable",
        }
    }
}

/// Checks each criterion: files by a look into the sandbox that parent and sub-agent share, commands against the `runs` that
/// are on record ([`super::command_runs`]). Nothing is run here: a criterion is a model's text, and commands have gates of their
/// own to pass. `None` when there is no criterion. A cancelled check is an unchecked one.
pub async fn acceptance_checks(
    criteria: &[String],
    sandbox: &dyn Sandbox,
    runs: &[CommandRun],
    cancel: &CancellationToken,
) -> Option<AcceptanceVerdict> {
    let criteria = criteria.iter().map(|c| head(c.trim(), MAX_CRITERION_CHARS).trim()).filter(|c| !c.is_empty());
    let mut leaves = Vec::new();
    for criterion in criteria.take(MAX_CRITERIA) {
        let check = Check::parse(criterion);
        let finding = match check {
            Check::File(what, path) => tokio::select! {
                biased;
                () = cancel.cancelled() => Finding::Unchecked("the check was cancelled".to_owned()),
                finding = tokio::time::timeout(FILE_LIMIT, look(sandbox, what, path)) => finding.unwrap_or_else(|_| {
                    Finding::Unchecked(format!("no answer within {} s", FILE_LIMIT.as_secs()))
                }),
            },
            Check::Command { command, tests } => recall(runs, command, tests),
            Check::Undecidable => Finding::Unchecked("not something that can be checked by itself".to_owned()),
        };
        let (checked, holds, detail) = match finding {
            Finding::Holds(detail) => (true, true, detail),
            Finding::Fails(detail) => (true, false, detail),
            Finding::Unchecked(detail) => (false, false, detail),
        };
        let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
        leaves.push(AcceptanceLeaf {
            // A model's text that goes into another model's context.
            criterion: neutralise(criterion).into_owned(),
            family: check.family().to_owned(),
            checked,
            holds,
            detail: ellipsis(&neutralise(&detail), MAX_DETAIL_CHARS),
        });
    }
    (!leaves.is_empty()).then(|| AcceptanceVerdict::of(leaves))
}

async fn look(sandbox: &dyn Sandbox, what: FileCheck, path: &str) -> Finding {
    let path = match sandbox.parse_path(path) {
        Ok(path) if path.is_within(&VirtualPath::workspace()) || path.is_within(&VirtualPath::outputs()) => path,
        Ok(_) => return Finding::Unchecked("outside the workspace and the outputs that both share".to_owned()),
        Err(error) => return Finding::Unchecked(error.to_string()),
    };
    let stat = match sandbox.stat(&path).await {
        Ok(stat) => stat,
        Err(SandboxError::NotFound { .. }) => return Finding::Fails("the file does not exist".to_owned()),
        Err(error) => return Finding::Unchecked(error.to_string()),
    };
    if stat.kind != FileKind::File {
        return Finding::Fails("there is something, but no regular file".to_owned());
    }
    let size = stat.size;
    match what {
        FileCheck::Exists => Finding::Holds(format!("exists, {size} bytes")),
        FileCheck::NonEmpty if size > 0 => Finding::Holds(format!("{size} bytes")),
        FileCheck::NonEmpty => Finding::Fails("the file is empty".to_owned()),
        // Reads all of it.
        FileCheck::Written => match sandbox.sha256(&path).await {
            Ok(hash) => Finding::Holds(format!("read back, {size} bytes, sha256 {}", head(&hash, 16))),
            Err(error) => Finding::Unchecked(error.to_string()),
        },
        FileCheck::ValidJson => match sandbox.read_bytes(&path, MAX_TEXT_BYTES).await {
            Ok(bytes) => json_finding(bytes).await,
            Err(error) => Finding::Unchecked(error.to_string()),
        },
    }
}

async fn json_finding(bytes: Vec<u8>) -> Finding {
    let parse =
        move || serde_json::from_slice::<IgnoredAny>(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes)).map(drop);
    match tokio::task::spawn_blocking(parse).await {
        Ok(Ok(())) => Finding::Holds("parses as JSON".to_owned()),
        Ok(Err(error)) => Finding::Fails(format!("is no JSON: {error}")),
        Err(error) => Finding::Unchecked(error.to_string()),
    }
}

/// The latest run of a command decides: an attempt that failed before is no matter.
fn recall(runs: &[CommandRun], command: &str, tests: bool) -> Finding {
    let Some(run) = runs.iter().rev().find(|run| is_command(command, &run.command)) else {
        return Finding::Unchecked("no run of exactly this command is on record".to_owned());
    };
    match run.exit_code {
        None => return Finding::Fails("the latest run was ended before it was done".to_owned()),
        Some(0) => {}
        Some(code) => return Finding::Fails(format!("the latest run ended with exit code {code}")),
    }
    if !tests {
        return Finding::Holds("the latest run ended with exit code 0".to_owned());
    }
    match summary_of_tests(&run.output_tail) {
        Some(Ok(line)) => Finding::Holds(format!("exit code 0, \"{line}\"")),
        Some(Err(line)) => Finding::Fails(format!("exit code 0, but \"{line}\"")),
        None => Finding::Unchecked("exit code 0, but no summary of tests in the output".to_owned()),
    }
}

/// The line that says that tests passed; the one that says otherwise comes first. `None` when no line says either.
fn summary_of_tests(output: &str) -> Option<Result<&str, &str>> {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let failed = |line: &&str| {
        let lower = line.to_lowercase();
        counted(&lower, "failed").is_some_and(|count| count > 0)
            || counted(&lower, "passed") == Some(0) && !lower.contains("test result: ok")
            || lower.contains("test result: failed")
            || line.starts_with("FAILED")
            || line.starts_with("FAIL\t")
            || line.starts_with("FAIL ")
            || lower.contains("build failure")
            || lower.contains("[no test files]")
            || lower.contains("ran 0 tests")
    };
    let passed = |line: &&str| {
        let lower = line.to_lowercase();
        counted(&lower, "passed").is_some_and(|count| count > 0)
            || *line == "OK"
            || line.starts_with("ok  \t")
            || lower.contains("build success")
            || lower.contains("all tests passed")
    };
    lines().find(failed).map(Err).or_else(|| lines().find(passed).map(Ok))
}

/// The number before a word: `12 passed`, `12 tests passed`.
fn counted(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let at = words.iter().position(|w| *w == word)?;
    words[at.saturating_sub(2)..at].iter().rev().find_map(|w| w.parse().ok())
}

impl AcceptanceVerdict {
    fn of(leaves: Vec<AcceptanceLeaf>) -> Self {
        Self {
            source: SOURCE.to_owned(),
            requirement: REQUIREMENT.to_owned(),
            unchecked: leaves.iter().filter(|l| !l.checked).map(|l| l.criterion.clone()).collect(),
            all_hold: leaves.iter().all(|l| l.checked && l.holds),
            leaves,
        }
    }

    /// A stored verdict, if it is one: what is read back is believed only when it agrees with itself.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let verdict = Self::deserialize(value).ok()?;
        // Making text harmless may lengthen it fourfold.
        let sound = |leaf: &AcceptanceLeaf| {
            leaf.criterion.chars().count() <= 4 * MAX_CRITERION_CHARS
                && leaf.detail.chars().count() <= MAX_DETAIL_CHARS
                && (leaf.checked || !leaf.holds)
        };
        let count = verdict.leaves.len();
        ((1..=MAX_CRITERIA).contains(&count)
            && verdict.leaves.iter().all(sound)
            && verdict == Self::of(verdict.leaves.clone()))
        .then_some(verdict)
    }

    /// All criteria, a line each.
    #[must_use]
    pub fn checklist(&self) -> String {
        let mut text = format!("Acceptance checklist ({LIMITATION}):");
        for leaf in &self.leaves {
            let mark = match (leaf.checked, leaf.holds) {
                (false, _) => "UNVERIFIED",
                (true, true) => "holds",
                (true, false) => "does not hold",
            };
            text.push_str(&format!("\n- [{mark}] {}: {}", leaf.criterion, leaf.detail));
        }
        text
    }

    /// The verdict in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |checked: bool, holds: bool| {
            self.leaves.iter().filter(|l| l.checked == checked && l.holds == holds).count()
        };
        let parts =
            [(count(true, true), "hold"), (count(true, false), "do not hold"), (count(false, false), "UNVERIFIED")];
        let parts: Vec<String> =
            parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        format!("acceptance: {} ({LIMITATION})", parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
