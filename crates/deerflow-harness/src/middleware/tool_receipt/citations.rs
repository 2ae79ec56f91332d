//! A report's citations held against the ledger.

use super::LIMITATION;
use super::receipt::{Receipt, parse_id};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

const SOURCE: &str = "receipt_citations";
const REQUIREMENT: &str = "cited_ids_in_execution_record";
/// Citations and failures of a verdict that is read back.
const MAX_ENTRIES: usize = 1000;

/// Words of somebody who has done something. A claim too many costs a line; one too few lets a false success through.
const ACTIONS: [&str; 29] = [
    "wrote",
    "written",
    "created",
    "saved",
    "generated",
    "ran",
    "executed",
    "uploaded",
    "downloaded",
    "deleted",
    "modified",
    "updated",
    "installed",
    "deployed",
    "fetched",
    "built",
    "compiled",
    "produced",
    "exported",
    "tested",
    "fixed",
    "已创建",
    "已保存",
    "已生成",
    "已写入",
    "已执行",
    "已修改",
    "已更新",
    "已删除",
];
const FILE_ENDINGS: [&str; 19] = [
    "py", "md", "txt", "json", "yaml", "yml", "csv", "html", "js", "ts", "sh", "log", "pdf", "png", "jpg", "jpeg",
    "rs", "xlsx", "docx",
];

/// Whether the citations of a report hold. Advisory: it says nothing about the task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptVerdict {
    /// Always `receipt_citations`.
    pub source: String,
    /// Always `cited_ids_in_execution_record`.
    pub requirement: String,
    /// Every citation names a successful call, of the tool it says; and no action is claimed without one.
    pub citation_resolved: bool,
    /// Ids cited, in order.
    pub cited: Vec<String>,
    /// Those that hold.
    pub resolved: Vec<String>,
    /// Those that do not, and why.
    pub failed: Vec<CitationFailure>,
    /// Those that are in no ledger.
    pub unknown: Vec<String>,
    /// The report claims to have done something and cites nothing.
    pub no_citation_claims: bool,
}

/// A citation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitationFailure {
    /// The id.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// Holds every citation of `text` against the receipts that its author was shown ([`super::ledger_of`]). Citations are
/// `[r1]`, `[r1 bash]`, or several in one pair of brackets with commas between.
#[must_use]
pub fn verify_citations(text: &str, ledger: &[Receipt]) -> ReceiptVerdict {
    let mut verdict =
        ReceiptVerdict { source: SOURCE.to_owned(), requirement: REQUIREMENT.to_owned(), ..ReceiptVerdict::default() };
    let mut seen = BTreeSet::new();
    for (id, tool) in citations(text) {
        if !seen.insert((id, tool)) {
            continue;
        }
        let id = id.to_owned();
        verdict.cited.push(id.clone());
        let mut fail = |id, reason| verdict.failed.push(CitationFailure { id, reason });
        match ledger.iter().find(|receipt| receipt.id == id) {
            None => verdict.unknown.push(id),
            Some(receipt) if receipt.status != "success" => {
                fail(id, format!("the call ended with status {}", receipt.status));
            }
            Some(receipt) => match tool.filter(|tool| *tool != receipt.tool_name) {
                Some(tool) => fail(id, format!("cited as a call of {tool}, but it was one of {}", receipt.tool_name)),
                None => verdict.resolved.push(id),
            },
        }
    }
    verdict.no_citation_claims = verdict.cited.is_empty() && claims_action(text);
    verdict.citation_resolved = verdict.holds();
    verdict
}

/// All `[rN tool]` of a text, in order.
fn citations(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices('[') {
        let inside = &text[start + 1..];
        let Some(end) = inside.find(['[', ']']).filter(|end| inside[*end..].starts_with(']')) else { continue };
        let parts: Option<Vec<_>> = inside[..end].split([',', ';']).map(one).collect();
        found.extend(parts.into_iter().flatten());
    }
    found
}

fn one(part: &str) -> Option<(&str, Option<&str>)> {
    let mut words = part.split_whitespace();
    let id = words.next().filter(|id| parse_id(id).is_some())?;
    let tool = words.next().map(|tool| tool.trim_matches('`'));
    let is_name = |tool: &&str| !tool.is_empty() && tool.chars().all(|c| c.is_alphanumeric() || "_-.:/".contains(c));
    match (tool, words.next()) {
        (None, _) => Some((id, None)),
        (Some(tool), None) if is_name(&tool) => Some((id, Some(tool))),
        _ => None,
    }
}

fn claims_action(text: &str) -> bool {
    let lower = text.to_lowercase();
    let (spaced, joined): (Vec<&str>, Vec<&str>) = ACTIONS.iter().partition(|word| word.is_ascii());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    lower.split(|c: char| !is_word(c)).any(|word| spaced.contains(&word))
        || joined.iter().any(|word| lower.contains(word))
        || lower.split_whitespace().any(names_file)
}

/// A path of two names or more, or a name with a well-known ending.
fn names_file(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '_' | '-'));
    let word = word.trim_end_matches('.');
    let name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c));
    let names: Vec<&str> = word.split('/').collect();
    if word.starts_with('/') && names.len() > 2 && names[1..].iter().filter(|n| name(n)).count() > 1 {
        return true;
    }
    let last = names.last().copied().unwrap_or_default();
    last.rsplit_once('.').is_some_and(|(stem, ending)| name(stem) && FILE_ENDINGS.contains(&ending))
}

impl ReceiptVerdict {
    fn holds(&self) -> bool {
        self.failed.is_empty() && self.unknown.is_empty() && !self.no_citation_claims
    }

    /// A stored verdict, if it is one: what is read back is believed only when it agrees with itself.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let verdict = Self::deserialize(value).ok()?;
        let outcomes = verdict.resolved.len() + verdict.failed.len() + verdict.unknown.len();
        let sound = verdict.source == SOURCE
            && verdict.requirement == REQUIREMENT
            && verdict.cited.len() <= MAX_ENTRIES
            && verdict.cited.iter().all(|id| parse_id(id).is_some())
            && outcomes == verdict.cited.len()
            && verdict.resolved.iter().chain(&verdict.unknown).all(|id| verdict.cited.contains(id))
            && verdict.failed.iter().all(|f| verdict.cited.contains(&f.id))
            && (!verdict.no_citation_claims || verdict.cited.is_empty())
            && verdict.citation_resolved == verdict.holds();
        sound.then_some(verdict)
    }

    /// The verdict in one line; `None` when there is nothing to say.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        if self.no_citation_claims {
            return Some("citations: UNVERIFIED, actions are claimed and none is cited".to_owned());
        }
        if self.cited.is_empty() {
            return None;
        }
        let count = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let parts: Vec<String> = [
            Some(format!("{} resolved", self.resolved.len())),
            count(self.failed.len(), "failed"),
            count(self.unknown.len(), "unknown"),
        ]
        .into_iter()
        .flatten()
        .collect();
        Some(format!("citations: {} ({LIMITATION})", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn ledger() -> Vec<Receipt> {
        let receipt = |id: &str, tool: &str, status: &str| Receipt {
            id: id.into(),
            tool_call_id: "c".into(),
            tool_name: tool.into(),
            status: status.into(),
            args_sha256: String::new(),
            output_sha256: String::new(),
            output_bytes: 0,
            created_at: String::new(),
        };
        vec![receipt("r4", "bash", "success"), receipt("r5", "write_file", "success"), receipt("r6", "bash", "error")]
    }

    #[test]
    fn citations_are_found_in_every_form() {
        let text =
            "a [r1], [r2 bash] [r3, r4 `ls`; r5] [r06] [r0] [r1234567] [x r1] [r1 two words] [[r9]] [r8](url) r7";
        assert_eq!(
            citations(text),
            [
                ("r1", None),
                ("r2", Some("bash")),
                ("r3", None),
                ("r4", Some("ls")),
                ("r5", None),
                ("r9", None),
                ("r8", None)
            ]
        );
    }

    #[test]
    fn what_holds_what_fails_and_what_nobody_knows() {
        let verdict =
            verify_citations("Ran it [r4 bash], wrote a.md [r5 bash], tried [r6], again [r4 bash], [r9]", &ledger());
        assert_eq!(verdict.cited, ["r4", "r5", "r6", "r9"]);
        assert_eq!(verdict.resolved, ["r4"]);
        let reasons: Vec<_> = verdict.failed.iter().map(|f| (f.id.as_str(), f.reason.as_str())).collect();
        assert_eq!(
            reasons,
            [
                ("r5", "cited as a call of bash, but it was one of write_file"),
                ("r6", "the call ended with status error")
            ]
        );
        assert_eq!(verdict.unknown, ["r9"]);
        assert!(!verdict.citation_resolved);
        let summary = verdict.summary().unwrap();
        assert!(
            summary.starts_with("citations: 1 resolved, 2 failed, 1 unknown (evidence of execution only"),
            "{summary}"
        );
        assert!(verify_citations("Ran it [r4].", &ledger()).citation_resolved);
    }

    #[test]
    fn actions_without_a_citation_are_unverified_and_plain_answers_are_not() {
        for claim in
            ["I updated it.", "See /mnt/user-data/outputs/x", "It is in report.md.", "报告已保存", "(`out.csv`)"]
        {
            let verdict = verify_citations(claim, &ledger());
            assert!(verdict.no_citation_claims && !verdict.citation_resolved, "{claim}");
            assert_eq!(verdict.summary().unwrap(), "citations: UNVERIFIED, actions are claimed and none is cited");
        }
        for plain in ["Rust is a language; e.g. and/or.", "The branch is Iran's", ""] {
            let verdict = verify_citations(plain, &ledger());
            assert!(verdict.citation_resolved && verdict.summary().is_none(), "{plain}");
        }
    }

    #[test]
    fn a_stored_verdict_must_agree_with_itself() {
        let verdict = verify_citations("[r4] [r9]", &ledger());
        let stored = json!(verdict);
        assert_eq!(ReceiptVerdict::from_value(&stored), Some(verdict));
        for (key, value) in [
            ("citation_resolved", json!(true)),
            ("unknown", json!([])),
            ("resolved", json!(["r4", "r5"])),
            ("cited", json!(["r4", "nonsense"])),
            ("source", json!("me")),
            ("failed", json!([{"id": "r4"}])),
            ("no_citation_claims", json!(true)),
        ] {
            let mut forged = stored.clone();
            forged[key] = value;
            assert_eq!(ReceiptVerdict::from_value(&forged), None, "{key}");
        }
        assert_eq!(ReceiptVerdict::from_value(&json!("yes")), None);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_verdict_that_reads_back(text in "[r0-9\\[\\], a-z;`界]{0,80}") {
            let verdict = verify_citations(&text, &ledger());
            let stored = json!(verdict);
            prop_assert_eq!(ReceiptVerdict::from_value(&stored), Some(verdict));
        }
    }
}
