//! The delivery receipt: files that a run made under `outputs`, and which of them it presented.
//!
//! A run that made some and presented none is no success: its user would never see them.

use deerflow_core::ports::StepCommit;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const OUTPUTS: &str = "/mnt/user-data/outputs";
/// Files and folders looked at; what lies beyond does not count.
const MAX_ENTRIES: usize = 20_000;
/// Paths told in a receipt.
const MAX_PATHS: usize = 100;
/// By how much the clock of files may lag behind, in microseconds: the kernel stamps them at its ticks.
const CLOCK_SLACK: i64 = 10_000;

/// What a run owes its user.
pub(crate) struct Delivery {
    outputs: PathBuf,
    /// The run was admitted then, in microseconds since 1970.
    since: i64,
    /// Folder of the machinery's own.
    skip: String,
    presented: Mutex<BTreeSet<String>>,
}

/// The receipt, and why the run is no success.
pub(crate) struct Verdict {
    pub(crate) receipt: Value,
    pub(crate) problem: Option<String>,
}

impl Delivery {
    /// `outputs` is the thread's folder on disk, `skip` a folder in it that does not count; `presented` is what the run
    /// presented in an earlier life.
    pub(crate) fn new(outputs: PathBuf, skip: String, since: i64, presented: BTreeSet<String>) -> Self {
        Self { outputs, skip, since, presented: Mutex::new(presented) }
    }

    /// Takes note of what a step presents.
    pub(crate) fn note(&self, commit: &StepCommit) {
        let artifacts = commit.updates.iter().filter(|update| update.node == "tools");
        let artifacts = artifacts.filter_map(|update| update.update.artifacts.as_ref()).flatten().cloned();
        self.presented.lock().unwrap_or_else(PoisonError::into_inner).extend(artifacts);
    }

    /// What stands now.
    pub(crate) async fn verdict(&self) -> Verdict {
        let presented = self.presented.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (outputs, skip, since) = (self.outputs.clone(), self.skip.clone(), self.since - CLOCK_SLACK);
        let produced = tokio::task::spawn_blocking(move || produced(&outputs, &skip, since)).await.unwrap_or_default();
        judge(&produced, &presented)
    }
}

fn judge(produced: &BTreeSet<String>, presented: &BTreeSet<String>) -> Verdict {
    let shown = |paths: &BTreeSet<String>| paths.iter().take(MAX_PATHS).cloned().collect::<Vec<_>>();
    let by_tool = if presented.is_empty() { json!({}) } else { json!({"present_files": presented.len()}) };
    let mut receipt = json!({"presented": presented.len(), "paths": shown(presented), "by_tool": by_tool});
    if produced.is_empty() {
        return Verdict { receipt, problem: None };
    }
    let covers = |file: &String| {
        let below = |path: &String| file.strip_prefix(path.trim_end_matches('/')).is_some_and(|r| r.starts_with('/'));
        presented.iter().any(|path| path == file || below(path))
    };
    let matched: BTreeSet<String> = produced.iter().filter(|file| covers(file)).cloned().collect();
    let stage = match (matched.is_empty(), presented.is_empty()) {
        (false, _) => "presented",
        (true, false) => "mismatched",
        (true, true) => "not_started",
    };
    let facts = json!({
        "verification": {"source": "outputs_changed", "requirement": "present_files_matches_produced_output"},
        "produced_paths": shown(produced),
        "presented_paths": shown(presented),
        "matched_paths": shown(&matched),
        "stage": stage,
        "satisfied": !matched.is_empty(),
    });
    if let (Some(receipt), Value::Object(facts)) = (receipt.as_object_mut(), facts) {
        receipt.extend(facts);
    }
    let problem = matched.is_empty().then(|| {
        let files = produced.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if produced.len() > 5 { format!(" and {} more", produced.len() - 5) } else { String::new() };
        format!("Artifact delivery incomplete: the run made {files}{more} and presented none of it with present_files")
    });
    Verdict { receipt, problem }
}

/// Regular files below `outputs` that were made or changed since, as the agent names them. Folders whose name begins with a
/// dot are the machinery's.
fn produced(outputs: &Path, skip: &str, since: i64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![(outputs.to_owned(), OUTPUTS.to_owned())];
    let mut seen = 0;
    while let Some((folder, name)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            // Not followed: a link is no file of its own.
            let Ok(facts) = entry.metadata() else { continue };
            let Ok(own_name) = entry.file_name().into_string() else { continue };
            let path = format!("{name}/{own_name}");
            if facts.is_dir() && !own_name.starts_with('.') && own_name != skip {
                folders.push((entry.path(), path));
            } else if facts.is_file() && changed_at(&facts) >= since {
                found.insert(path);
            }
        }
    }
    found
}

/// When name, content or mode of a file changed last, in microseconds since 1970. Unlike the time of modification nobody
/// sets it.
fn changed_at(facts: &std::fs::Metadata) -> i64 {
    facts.ctime().saturating_mul(1_000_000).saturating_add(facts.ctime_nsec() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| format!("{OUTPUTS}/{path}")).collect()
    }

    #[test]
    fn one_presented_file_or_its_folder_is_enough() {
        for presented in [&["a.md"][..], &["sub"], &["sub/"], &["other.md", "sub/b.md"]] {
            let verdict = judge(&set(&["a.md", "sub/b.md"]), &set(presented));
            assert_eq!(verdict.problem, None, "{presented:?}");
            assert_eq!(verdict.receipt["satisfied"], true);
            assert_eq!(verdict.receipt["stage"], "presented");
        }
    }

    #[test]
    fn files_that_nobody_is_shown_are_a_failure() {
        for (presented, stage) in [(&[][..], "not_started"), (&["other.md", "su"], "mismatched")] {
            let verdict = judge(&set(&["sub/b.md"]), &set(presented));
            assert!(verdict.problem.unwrap().starts_with("Artifact delivery incomplete: "), "{presented:?}");
            assert_eq!(verdict.receipt["stage"], stage);
        }
    }

    #[test]
    fn without_new_files_nothing_is_owed() {
        let verdict = judge(&set(&[]), &set(&["old.md"]));
        assert_eq!(verdict.problem, None);
        assert_eq!(
            verdict.receipt,
            json!({"presented": 1, "paths": [format!("{OUTPUTS}/old.md")], "by_tool": {"present_files": 1}})
        );
    }

    #[test]
    fn only_new_regular_files_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sub/.tool-results")).unwrap();
        std::fs::create_dir(folder.path().join("skipped")).unwrap();
        for file in ["old.md", "sub/new.md", "sub/.tool-results/big.txt", "skipped/a"] {
            std::fs::write(folder.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let at = |file: &str| changed_at(&std::fs::metadata(folder.path().join(file)).unwrap());
        assert_eq!(produced(folder.path(), "skipped", at("sub/new.md").min(at("old.md"))).len(), 2);
        assert_eq!(produced(folder.path(), "skipped", at("sub/new.md").max(at("old.md")) + 1), BTreeSet::new());
        assert_eq!(produced(&folder.path().join("absent"), "", 0), BTreeSet::new());
    }
}
