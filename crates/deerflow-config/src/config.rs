//! The configuration, read and checked.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::diagnostic::Diagnostic;
use crate::redact::{REDACTED, redact_value};
use crate::registry::Section;

#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) section: Arc<dyn Any + Send + Sync>,
    pub(crate) effective: Value,
    /// Of the value as written, to tell a changed section without keeping its secrets.
    pub(crate) fingerprint: u64,
    pub(crate) restart_only: bool,
}

/// All sections of a checked configuration. Cheap to clone; `Debug` shows no secrets.
#[derive(Clone)]
pub struct Config {
    pub(crate) home: PathBuf,
    pub(crate) source: Option<PathBuf>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) sections: BTreeMap<&'static str, Loaded>,
    /// Top-level keys that belong to no registered section.
    pub(crate) other: Map<String, Value>,
    /// JSON pointers of values that came from a variable with a secret's name.
    pub(crate) secret_pointers: Vec<String>,
}

impl Config {
    /// A configuration of defaults, for embedding and tests. Add sections with [`Config::with_section`].
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            source: None,
            warnings: Vec::new(),
            sections: BTreeMap::new(),
            other: Map::new(),
            secret_pointers: Vec::new(),
        }
    }

    /// This configuration with another value of one section. It is not validated.
    #[must_use]
    pub fn with_section<S: Section>(mut self, section: S) -> Self {
        let effective = serde_json::to_value(&section).unwrap_or_default();
        let fingerprint = fingerprint(&effective);
        let loaded = Loaded { section: Arc::new(section), effective, fingerprint, restart_only: S::RESTART_ONLY };
        self.sections.insert(S::KEY, loaded);
        self
    }

    /// A section, defaults where the file says nothing. A section that was not registered is read on the spot; if the
    /// file's value does not fit it, that is logged and the default is given: register what you use.
    pub fn section<S: Section>(&self) -> Arc<S> {
        if let Some(loaded) = self.sections.get(S::KEY)
            && let Ok(section) = Arc::clone(&loaded.section).downcast::<S>()
        {
            return section;
        }
        match self.other.get(S::KEY).filter(|value| !value.is_null()).map(|value| S::deserialize(value)) {
            None => Arc::default(),
            Some(Ok(section)) => Arc::new(section),
            Some(Err(error)) => {
                tracing::error!(section = S::KEY, %error, "section is not registered and its value does not fit");
                Arc::default()
            }
        }
    }

    /// The folder for data, absolute. It may not exist yet.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The file that was read, if any.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// Warnings and notes, in the order of the file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The value of a top-level key that no registered section owns. Secrets in it are plain.
    pub fn other(&self, key: &str) -> Option<&Value> {
        self.other.get(key)
    }

    /// Everything as it is in force, defaults included, with secrets redacted.
    pub fn effective(&self) -> Value {
        let sections = self.sections.iter().map(|(key, loaded)| ((*key).to_owned(), loaded.effective.clone()));
        let other = self.other.iter().map(|(key, value)| (key.clone(), value.clone()));
        let mut value = Value::Object(sections.chain(other).collect());
        for pointer in &self.secret_pointers {
            if let Some(secret) = value.pointer_mut(pointer) {
                *secret = REDACTED.into();
            }
        }
        redact_value(&mut value);
        value
    }

    /// The restart-only sections in which `newer` differs: what a reload cannot put in force.
    pub fn changed_restart_only(&self, newer: &Config) -> Vec<&'static str> {
        let restart_only = self.sections.iter().filter(|(_, loaded)| loaded.restart_only);
        let changed = restart_only
            .filter(|(key, old)| newer.sections.get(*key).is_none_or(|new| new.fingerprint != old.fingerprint));
        changed.map(|(key, _)| *key).collect()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("home", &self.home)
            .field("source", &self.source)
            .field("effective", &self.effective().to_string())
            .finish_non_exhaustive()
    }
}

pub(crate) fn fingerprint(value: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
