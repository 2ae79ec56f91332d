//! The phases of a tool within a run: active, warned, blocked.

use super::ToolProgressConfig;
use super::words::{Words, alike, words};
use crate::middleware::tool_error_handling::ToolMeta;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// `error_type` of a call to a blocked tool.
pub(super) const BLOCKED: &str = "blocked_by_progress_guard";
/// Good results that a new one is compared with.
const REMEMBERED: usize = 3;

/// Where a tool stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// It brings something.
    #[default]
    Active,
    /// The model was told that it does not.
    Warned,
    /// It is not run again in this run.
    Blocked,
}

/// A tool's record.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    phase: Phase,
    /// Problems in a row.
    pub(super) problems: usize,
    /// What the last result was.
    pub(super) meta: Option<ToolMeta>,
    /// Count that caused the last change, where a count did.
    pub(super) threshold: Option<usize>,
    recent: VecDeque<Words>,
}

/// Records of all tools.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    tools: BTreeMap<String, Standing>,
}

impl Tracker {
    /// Adds a result; a hint for the model if it has come to that.
    pub(super) fn add(
        &mut self,
        config: &ToolProgressConfig,
        tool: &str,
        meta: &ToolMeta,
        content: &str,
    ) -> Option<String> {
        let standing = self.tools.entry(tool.to_owned()).or_default();
        if standing.phase == Phase::Blocked || meta.error_type.as_deref() == Some(BLOCKED) {
            return None;
        }
        standing.meta = Some(meta.clone());
        standing.threshold = None;
        if !meta.recoverable_by_model && meta.recommended_next_action == "stop" {
            standing.problems += 1;
            standing.phase = Phase::Blocked;
            return None;
        }
        if meta.status == "success" {
            let now = words(content);
            let (threshold, min) = (config.jaccard_similarity_threshold, config.min_word_count_for_similarity);
            if !standing.recent.iter().any(|before| alike(&now, before, threshold, min)) {
                standing.recent.push_back(now);
                if standing.recent.len() > REMEMBERED {
                    standing.recent.pop_front();
                }
                standing.problems = 0;
                standing.phase = Phase::Active;
                return None;
            }
        } else if !matches!(meta.status.as_str(), "error" | "partial_success") {
            return None;
        }
        standing.problems += 1;
        let block_at = config.stagnation_threshold + config.warn_escalation_count;
        if standing.problems >= block_at && !meta.recoverable_by_model {
            standing.threshold = Some(block_at);
            standing.phase = Phase::Blocked;
            return None;
        }
        if standing.problems < config.stagnation_threshold {
            return None;
        }
        standing.threshold = Some(config.stagnation_threshold);
        standing.phase = Phase::Warned;
        Some(hint(tool, meta))
    }

    pub(super) fn phase(&self, tool: &str) -> Phase {
        self.tools.get(tool).map(|s| s.phase).unwrap_or_default()
    }
    pub(super) fn standing(&self, tool: &str) -> Option<&Standing> {
        self.tools.get(tool)
    }
    /// Tools that are not active.
    pub(super) fn phases(&self) -> BTreeMap<String, Phase> {
        let notable = self.tools.iter().filter(|(_, s)| s.phase != Phase::Active);
        notable.map(|(tool, s)| (tool.clone(), s.phase)).collect()
    }
    /// Why a tool is blocked, if it is.
    pub(super) fn block_reason(&self, tool: &str) -> Option<String> {
        let standing = self.tools.get(tool).filter(|s| s.phase == Phase::Blocked)?;
        let kind = standing.meta.as_ref().and_then(|m| m.error_type.as_deref()).unwrap_or_default();
        Some(match kind {
            "auth" => format!("`{tool}` was refused its credentials and cannot be used in this run. Go on without it."),
            "config" => format!("`{tool}` is not set up and cannot be used in this run. Go on without it."),
            "internal" => format!("`{tool}` fails inside and is not available in this run. Go on without it."),
            "rate_limited" => {
                format!(
                    "`{tool}` is being rate limited again and again. Work with what you have, and say what is missing."
                )
            }
            "transient" => {
                format!("`{tool}` keeps failing on its way. Try something else, or work with what you have.")
            }
            _ => format!("`{tool}` has brought nothing new for several calls. Work with what you have."),
        })
    }
}

fn hint(tool: &str, meta: &ToolMeta) -> String {
    let what = match meta.error_type.as_deref().unwrap_or(&meta.status) {
        "no_results" => "found nothing, several times in a row",
        "not_found" => "did not find what it was asked for, several times in a row",
        "rate_limited" => "is being rate limited",
        "transient" => "has failed several times for reasons that pass",
        "partial_success" => "has brought incomplete results several times",
        "success" => "brings the same results again",
        _ => "is not bringing anything new",
    };
    let advice = match meta.recommended_next_action.as_str() {
        "rewrite_query" => "Ask in other words, or for something else.",
        "try_alternative" => "Use another tool or another way.",
        "summarize" => "Sum up what you have and go on from there.",
        "stop" => "Do not try it again.",
        "continue" => "Ask for something different.",
        _ => "",
    };
    format!("[PROGRESS HINT] `{tool}` {what}. {advice}").trim_end().to_owned()
}
