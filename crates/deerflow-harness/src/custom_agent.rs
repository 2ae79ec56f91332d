//! Custom agents: a name, a soul, and a few choices, in `users/<user>/agents/<name>/`.

use deerflow_core::UserId;
use serde::Deserialize;
use std::path::Path;

/// A custom agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomAgent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Model it wants.
    pub model: Option<String>,
    /// Who it is: the text of `SOUL.md`.
    pub soul: Option<String>,
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
    /// One of its files cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    description: String,
    model: Option<String>,
}

impl CustomAgent {
    /// Loads the agent `name` of a user from `home`.
    ///
    /// # Errors
    /// [`CustomAgentError`] says what is wrong and what to do.
    pub fn load(home: &Path, user: &UserId, name: &str) -> Result<Self, CustomAgentError> {
        let name = name.to_lowercase().replace('_', "-");
        let valid = !name.is_empty()
            && name.len() <= 64
            && name
                .split('-')
                .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        if !valid {
            return Err(CustomAgentError::BadName(name));
        }
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
        let file: File = match read(&folder.join("config.yaml"))? {
            None => File::default(),
            Some(text) => serde_saphyr::from_str(&text).map_err(|error| CustomAgentError::Unreadable {
                path: folder.join("config.yaml").display().to_string(),
                reason: error.to_string(),
            })?,
        };
        Ok(Self { name, description: file.description, model: file.model, soul })
    }
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
                description: "counts".into(),
                model: Some("big".into()),
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
