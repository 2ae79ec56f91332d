//! The folder of a user's custom agents.

use super::{CustomAgent, CustomAgentError, normal_name};
use deerflow_core::UserId;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Custom agents of one user: `<home>/users/<user>/agents/<name>/{config.yaml,SOUL.md}`. All of it blocks.
#[derive(Debug, Clone)]
pub struct CustomAgents {
    home: PathBuf,
    user: UserId,
}

impl CustomAgents {
    /// The agents of a user.
    #[must_use]
    pub fn new(home: &Path, user: &UserId) -> Self {
        Self { home: home.to_owned(), user: user.clone() }
    }

    fn dir(&self) -> PathBuf {
        self.home.join("users").join(self.user.as_str()).join("agents")
    }

    /// All of them, by name. One that cannot be read is left out, with a line in the log.
    ///
    /// # Errors
    /// [`CustomAgentError::Unreadable`] when the folder cannot be read.
    pub fn list(&self) -> Result<Vec<CustomAgent>, CustomAgentError> {
        let dir = self.dir();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&dir, &error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter(|name| normal_name(name).is_ok_and(|normal| normal == *name)).collect();
        names.sort();
        let load = |name: &String| match self.load(name) {
            Ok(agent) => Some(agent),
            Err(error) => {
                tracing::warn!(%error, name, "a custom agent is left out");
                None
            }
        };
        Ok(names.iter().filter_map(load).collect())
    }

    /// One of them.
    ///
    /// # Errors
    /// As [`CustomAgent::load`].
    pub fn load(&self, name: &str) -> Result<CustomAgent, CustomAgentError> {
        CustomAgent::load(&self.home, &self.user, name)
    }

    /// Whether there is one of this name.
    ///
    /// # Errors
    /// [`CustomAgentError::BadName`].
    pub fn exists(&self, name: &str) -> Result<bool, CustomAgentError> {
        Ok(self.dir().join(normal_name(name)?).exists())
    }

    /// Makes an agent; the name is put in its stored form. All of it is there at once.
    ///
    /// # Errors
    /// [`CustomAgentError::BadName`], [`CustomAgentError::Exists`], [`CustomAgentError::Unwritable`].
    pub fn create(&self, mut agent: CustomAgent) -> Result<CustomAgent, CustomAgentError> {
        agent.name = normal_name(&agent.name)?;
        let dir = self.dir();
        let folder = dir.join(&agent.name);
        fs::create_dir_all(&dir).map_err(|error| unwritable(&dir, &error))?;
        let made = dir.join(format!(".new-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&made).map_err(|error| unwritable(&made, &error))?;
        let result = write(&made, &agent).and_then(|()| {
            // Over an empty folder too: only one with files is somebody's agent.
            fs::rename(&made, &folder).map_err(|error| match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    CustomAgentError::Exists(agent.name.clone())
                }
                _ => unwritable(&folder, &error),
            })
        });
        if result.is_err() {
            // What is left of it has a name that no agent has.
            let _ = fs::remove_dir_all(&made);
        }
        result.map(|()| agent)
    }

    /// Writes an agent that is there.
    ///
    /// # Errors
    /// As [`CustomAgent::load`]; [`CustomAgentError::Unwritable`].
    pub fn update(&self, agent: &CustomAgent) -> Result<(), CustomAgentError> {
        let name = self.load(&agent.name)?.name;
        write(&self.dir().join(name), agent)
    }

    /// Deletes an agent with its folder.
    ///
    /// # Errors
    /// As [`CustomAgent::load`]; [`CustomAgentError::Unwritable`].
    pub fn delete(&self, name: &str) -> Result<(), CustomAgentError> {
        let folder = self.dir().join(self.load(name)?.name);
        fs::remove_dir_all(&folder).map_err(|error| unwritable(&folder, &error))
    }
}

fn write(folder: &Path, agent: &CustomAgent) -> Result<(), CustomAgentError> {
    let config = folder.join("config.yaml");
    let text = serde_saphyr::to_string(&agent.settings).map_err(|error| CustomAgentError::Unwritable {
        path: config.display().to_string(),
        reason: error.to_string(),
    })?;
    replace(&config, &text)?;
    let soul = folder.join("SOUL.md");
    match &agent.soul {
        Some(text) => replace(&soul, text),
        None => match fs::remove_file(&soul) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(&soul, &error)),
            _ => Ok(()),
        },
    }
}

/// Writes a file so that a reader sees the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<(), CustomAgentError> {
    let part = path.with_extension(format!("{}.part", uuid::Uuid::new_v4().simple()));
    let written = fs::File::create_new(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        unwritable(path, &error)
    })
}

fn unwritable(path: &Path, error: &io::Error) -> CustomAgentError {
    CustomAgentError::Unwritable { path: path.display().to_string(), reason: error.to_string() }
}

fn unreadable(path: &Path, error: &io::Error) -> CustomAgentError {
    CustomAgentError::Unreadable { path: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::AgentSettings;
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn an_agent_is_made_changed_and_deleted() {
        let home = tempfile::tempdir().unwrap();
        let agents = CustomAgents::new(home.path(), &UserId::local());
        assert_eq!(agents.list().unwrap(), []);
        let settings = AgentSettings {
            description: "yes: \"no\"\n# 测".into(),
            skills: Some(vec!["null".into(), "1".into()]),
            model_settings: json!({"temperature": 0.5, "max_tokens": null}).as_object().cloned(),
            extra: json!({"metadata": {"a": [1, "b"]}}).as_object().cloned().unwrap(),
            ..AgentSettings::default()
        };
        let agent = CustomAgent { name: "Sales_Analyst".into(), settings, soul: Some("You count.\n".into()) };
        let made = agents.create(agent.clone()).unwrap();
        assert_eq!(made.name, "sales-analyst");
        assert_eq!(agents.list().unwrap(), std::slice::from_ref(&made));
        assert!(matches!(agents.create(agent), Err(CustomAgentError::Exists(name)) if name == "sales-analyst"));
        let changed = CustomAgent { soul: None, settings: AgentSettings::default(), ..made };
        agents.update(&changed).unwrap();
        assert_eq!(agents.load("sales-analyst").unwrap(), changed);
        agents.delete("sales-analyst").unwrap();
        assert!(!agents.exists("sales-analyst").unwrap());
        assert!(matches!(agents.delete("sales-analyst"), Err(CustomAgentError::Unknown { .. })));
        assert!(matches!(agents.delete("../x"), Err(CustomAgentError::BadName(_))));
        assert_eq!(fs::read_dir(home.path().join("users/default/agents")).unwrap().count(), 0);
    }
}
