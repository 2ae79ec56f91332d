//! The `human_in_the_loop:` section of the configuration.

use deerflow_config::{KeyPath, Problems, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Asks by itself, and is answered in another way.
pub(super) const NEVER: &str = "ask_clarification";

/// Calls that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HumanInTheLoopConfig {
    /// By name of the tool: `true` for every decision, `false` for none (the tool runs unasked, as do all that are not
    /// named), or which decisions are allowed.
    pub interrupt_on: BTreeMap<String, Approval>,
    /// First line of what a person is told, for tools without a `description` of their own.
    pub description_prefix: String,
}

/// Whether and how a tool's calls are decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Approval {
    /// Every decision, or no question.
    Switch(bool),
    /// Certain decisions.
    Details(ApprovalDetails),
}

/// How a tool's calls are decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalDetails {
    /// What a person may decide.
    #[schemars(length(min = 1))]
    pub allowed_decisions: Vec<DecisionType>,
    /// What a person is told, in place of tool and arguments.
    pub description: Option<String>,
}

/// What a person may decide about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionType {
    /// It runs as it is.
    Approve,
    /// It runs with another name or other arguments.
    Edit,
    /// It does not run; the model is told.
    Reject,
    /// It does not run; what the person says is its result.
    Respond,
}

impl DecisionType {
    pub(super) const ALL: [Self; 4] = [Self::Approve, Self::Edit, Self::Reject, Self::Respond];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
            Self::Respond => "respond",
        }
    }
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A tool's rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) allowed: Vec<DecisionType>,
    pub(super) description: Option<String>,
}

impl Default for ApprovalDetails {
    fn default() -> Self {
        Self { allowed_decisions: DecisionType::ALL.to_vec(), description: None }
    }
}

impl Default for HumanInTheLoopConfig {
    fn default() -> Self {
        Self { interrupt_on: BTreeMap::new(), description_prefix: "Tool execution requires approval".to_owned() }
    }
}

impl HumanInTheLoopConfig {
    /// Whether any tool's calls wait for a person.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.rules().is_empty()
    }

    pub(super) fn rules(&self) -> HashMap<String, Rule> {
        let rule = |approval: &Approval| match approval {
            Approval::Switch(false) => None,
            Approval::Switch(true) => Some(Rule { allowed: DecisionType::ALL.to_vec(), description: None }),
            Approval::Details(details) => {
                let mut allowed = Vec::new();
                for kind in &details.allowed_decisions {
                    if !allowed.contains(kind) {
                        allowed.push(*kind);
                    }
                }
                Some(Rule { allowed, description: details.description.clone() })
            }
        };
        let named = self.interrupt_on.iter().filter(|(tool, _)| *tool != NEVER);
        named.filter_map(|(tool, approval)| Some((tool.clone(), rule(approval)?))).collect()
    }
}

impl Section for HumanInTheLoopConfig {
    const KEY: &'static str = "human_in_the_loop";

    fn validate(&self, problems: &mut Problems) {
        for (tool, approval) in &self.interrupt_on {
            let path = KeyPath::root().key("interrupt_on").key(tool.clone());
            if tool == NEVER && *approval != Approval::Switch(false) {
                let help = "remove the entry; the tool is a question to a person already".to_owned();
                problems.error(path.clone(), format!("`{NEVER}` cannot wait for an approval"), Some(help));
            }
            if matches!(approval, Approval::Details(details) if details.allowed_decisions.is_empty()) {
                let help = "name at least one of approve, edit, reject, respond, or write `false` to run it unasked";
                problems.error(path.key("allowed_decisions"), "nothing is allowed", Some(help.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_config::{Loader, Registry};
    use pretty_assertions::assert_eq;

    fn load(yaml: &str) -> Result<HumanInTheLoopConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), yaml).unwrap();
        let loader = Loader::new(Registry::new().with::<HumanInTheLoopConfig>()).cwd(dir.path());
        let loader = loader.env([("HOME".to_owned(), "/nowhere".to_owned())]);
        loader.load().map(|c| c.section::<HumanInTheLoopConfig>().as_ref().clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn tools_are_switched_or_described() {
        let yaml = "human_in_the_loop:\n  interrupt_on:\n    bash: true\n    ls: false\n    write_file:\n      \
                    allowed_decisions: [approve, reject, approve]\n      description: Look at it.\n    glob: {description: x}\n";
        let config = load(yaml).unwrap();
        let rules = config.rules();
        assert!(config.is_active());
        assert_eq!(rules.len(), 3);
        assert_eq!(rules["bash"].allowed, DecisionType::ALL);
        assert_eq!(rules["glob"].allowed, DecisionType::ALL);
        assert_eq!(rules["write_file"].allowed, [DecisionType::Approve, DecisionType::Reject]);
        assert_eq!(rules["write_file"].description.as_deref(), Some("Look at it."));
        assert!(!HumanInTheLoopConfig::default().is_active());
    }

    #[test]
    fn what_could_never_be_answered_is_refused() {
        for entry in [
            "ask_clarification: true",
            "bash: {allowed_decisions: []}",
            "bash: {allowed_decisions: [maybe]}",
            "bash: {allowed: [approve]}",
            "bash: yes please",
        ] {
            let yaml = format!("human_in_the_loop:\n  interrupt_on:\n    {entry}\n");
            assert!(load(&yaml).is_err(), "{entry}");
        }
    }
}
