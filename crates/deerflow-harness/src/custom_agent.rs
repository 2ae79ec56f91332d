//! Custom agents: a name, a soul, and a few choices, in `users/<user>/agents/<name>/`.

mod files;

pub use files::CustomAgents;

use deerflow_core::{JsonMap, UserId};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A custom agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CustomAgent {
    /// Its name.
    pub name: String,
    /// Its choices: `config.yaml`.
    pub settings: AgentSettings,
    /// Who it is: the text of `SOUL.md`.
    pub soul: Option<String>,
}

/// The choices of a custom agent. Keys that are not known here are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSettings {
    /// What it is for.
    pub description: String,
    /// Model it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Groups of tools it is given; kept for when there are such groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_groups: Option<Vec<String>>,
    /// Skills it is given; kept for when there are skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// `temperature` and `max_tokens`; kept, and not yet asked of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_settings: Option<JsonMap>,
    /// Think first, unless the run says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_enabled: Option<bool>,
    /// `low`, `medium` or `high`, unless the run says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: JsonMap,
}

/// A custom agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CustomAgentError {
    /// The name cannot be one.
    #[error("agent name {0:?} is not valid: use lower-case letters, digits and single hyphens")]
    BadName(String),
    /// There is none of this name.
    #[error("there is no agent {name:?}; hint: {}", if .known.is_empty() { format!("make one by writing {dir}/{name}/SOUL.md") } else { format!("known agents: {}", .known.join(", ")) })]
    Unknown {
        /// The name asked for.
        name: String,
        /// Where agents live.
        dir: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// The name is taken.
    #[error("there is an agent {0:?} already")]
    Exists(String),
    /// One of its files cannot be written.
    #[error("cannot write {path}: {reason}")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// One of its files cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

impl CustomAgent {
    /// Loads the agent `name` of a user from `home`.
    ///
    /// # Errors
    /// [`CustomAgentError`] says what is wrong and what to do.
    pub fn load(home: &Path, user: &UserId, name: &str) -> Result<Self, CustomAgentError> {
        let name = normal_name(name)?;
        let agents = home.join("users").join(user.as_str()).join("agents");
        let folder = agents.join(&name);
        if !folder.is_dir() {
            let mut known: Vec<String> = std::fs::read_dir(&agents)
                .map(|entries| entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect())
                .unwrap_or_default();
            known.sort();
            return Err(CustomAgentError::Unknown { name, dir: agents.display().to_string(), known });
        }
        let soul = read(&folder.join("SOUL.md"))?;
        let settings: AgentSettings = match read(&folder.join("config.yaml"))? {
            None => AgentSettings::default(),
            Some(text) => serde_saphyr::from_str(&text).map_err(|error| CustomAgentError::Unreadable {
                path: folder.join("config.yaml").display().to_string(),
                reason: error.to_string(),
            })?,
        };
        Ok(Self { name, settings, soul })
    }
}

/// The name that an agent is stored under: lower case, hyphens for underscores.
fn normal_name(name: &str) -> Result<String, CustomAgentError> {
    let name = name.to_lowercase().replace('_', "-");
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let valid = name.len() <= 64 && name.split('-').all(is_part);
    if valid { Ok(name) } else { Err(CustomAgentError::BadName(name.chars().take(80).collect())) }
}

fn read(path: &Path) -> Result<Option<String>, CustomAgentError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CustomAgentError::Unreadable { path: path.display().to_string(), reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn an_agent_is_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("users/default/agents/sales-analyst");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SOUL.md"), "You count.").unwrap();
        std::fs::write(folder.join("config.yaml"), "description: counts\nmodel: big\nother: 1\n").unwrap();
        let agent = CustomAgent::load(home.path(), &UserId::local(), "Sales_Analyst").unwrap();
        assert_eq!(
            agent,
            CustomAgent {
                name: "sales-analyst".into(),
                settings: AgentSettings {
                    description: "counts".into(),
                    model: Some("big".into()),
                    extra: [("other".to_owned(), 1.into())].into_iter().collect(),
                    ..AgentSettings::default()
                },
                soul: Some("You count.".into())
            }
        );
        let unknown = CustomAgent::load(home.path(), &UserId::local(), "nobody").unwrap_err().to_string();
        assert!(unknown.contains("known agents: sales-analyst"), "{unknown}");
        for bad in ["", "..", "a/b", "a--b", "é"] {
            assert!(
                matches!(CustomAgent::load(home.path(), &UserId::local(), bad), Err(CustomAgentError::BadName(_))),
                "{bad}"
            );
        }
    }
}
