//! The list of sections that a program has, and what can be said of the whole file from it.

use std::any::Any;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::path::{KeyPath, Segment};

/// The `$id` of [`Registry::schema`].
pub const SCHEMA_ID: &str = "https://deerflow.dev/schema/config.json";

/// A top-level section of `config.yaml`, owned by the crate that uses it. See the crate's documentation for an example.
///
/// Every field should have a default (`#[serde(default)]` on the struct), so that a section with one key is complete.
/// Names that serde takes as aliases must be told to the schema, `#[schemars(extend("x-aliases" = ["other_name"]))]`.
pub trait Section: DeserializeOwned + Serialize + JsonSchema + Default + Send + Sync + 'static {
    /// The key in the file.
    const KEY: &'static str;

    /// Whether it is read at start only: a change takes effect when the program is started again.
    const RESTART_ONLY: bool = false;

    /// For a section that is a list of mappings: an entry that names an unset variable does not stop the load. The value
    /// is absent and the entry gets a key `$unset`, a list of `key=VARIABLE` texts, to be refused when it is used.
    const ENTRIES_MAY_LACK_VARIABLES: bool = false;

    /// Checks what a schema cannot say. Called only for a section that the file has. Paths are relative to the section.
    fn validate(&self, _problems: &mut Problems) {}
}

/// Collects what [`Section::validate`] finds.
#[derive(Debug, Default)]
pub struct Problems(pub(crate) Vec<Problem>);

#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    pub(crate) path: KeyPath,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    Error,
    Partial,
    Warning,
}

impl Problems {
    /// The configuration cannot be used.
    pub fn error(&mut self, path: impl Into<KeyPath>, message: impl Into<String>, help: Option<String>) {
        self.push(ProblemKind::Error, path.into(), message.into(), help);
    }

    /// One entry cannot be used and the rest can: an error for `config check`, a warning when loading. The section must
    /// refuse the entry when it is used.
    pub fn unusable(&mut self, path: impl Into<KeyPath>, message: impl Into<String>, help: Option<String>) {
        self.push(ProblemKind::Partial, path.into(), message.into(), help);
    }

    /// Probably not what was meant.
    pub fn warning(&mut self, path: impl Into<KeyPath>, message: impl Into<String>, help: Option<String>) {
        self.push(ProblemKind::Warning, path.into(), message.into(), help);
    }

    fn push(&mut self, kind: ProblemKind, path: KeyPath, message: String, help: Option<String>) {
        self.0.push(Problem { kind, path, message, help });
    }
}

/// A section read from its value.
pub(crate) struct Built {
    pub(crate) section: Arc<dyn Any + Send + Sync>,
    pub(crate) effective: Value,
    pub(crate) problems: Problems,
}

/// Why a value is not this section: where, and what serde says.
pub(crate) type BuildError = (KeyPath, String);

#[derive(Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) key: &'static str,
    pub(crate) restart_only: bool,
    pub(crate) entries_may_lack_variables: bool,
    schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) build: fn(Option<Value>) -> Result<Built, BuildError>,
}

/// The sections a program has.
#[derive(Clone, Default)]
pub struct Registry {
    pub(crate) specs: Vec<Spec>,
    pub(crate) absent: Vec<(String, String)>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.specs.iter().map(|spec| spec.key)).finish()
    }
}

impl Registry {
    /// No sections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a section. The last one registered under a key is the one that counts.
    #[must_use]
    pub fn with<S: Section>(mut self) -> Self {
        self.specs.retain(|spec| spec.key != S::KEY);
        self.absent.retain(|(key, _)| key != S::KEY);
        self.specs.push(Spec {
            key: S::KEY,
            restart_only: S::RESTART_ONLY,
            entries_may_lack_variables: S::ENTRIES_MAY_LACK_VARIABLES,
            schema: |generator| generator.subschema_for::<S>(),
            build: build::<S>,
        });
        self
    }

    /// Declares a section that files may have and this program does nothing with. It is accepted with a note that says why.
    #[must_use]
    pub fn known_but_absent(mut self, key: &str, why: impl Into<String>) -> Self {
        if !self.specs.iter().any(|spec| spec.key == key) {
            self.absent.push((key.to_owned(), why.into()));
        }
        self
    }

    /// The keys that are read only at start.
    pub fn restart_only(&self) -> impl Iterator<Item = &'static str> {
        self.specs.iter().filter(|spec| spec.restart_only).map(|spec| spec.key)
    }

    /// All top-level keys that mean something.
    pub(crate) fn known_keys(&self) -> impl Iterator<Item = &str> {
        let specs = self.specs.iter().map(|spec| spec.key);
        specs.chain(self.absent.iter().map(|(key, _)| key.as_str())).chain(["config_version"])
    }

    /// The JSON Schema (draft 2020-12) of the whole file, for editors. Other names of keys are listed as such, and
    /// numbers and booleans may also be a `$NAME`.
    pub fn schema(&self) -> Value {
        let mut schema = self.strict_schema();
        widen(&mut schema);
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (key, property) in properties.iter_mut() {
                if key != "config_version" {
                    let inner = property.take();
                    *property = json!({ "anyOf": [inner, { "type": "null" }] });
                }
            }
            for (key, why) in &self.absent {
                properties.insert(key.clone(), json!({ "description": why }));
            }
        }
        schema
    }

    /// The schema that checking goes by: exactly what the sections say.
    pub(crate) fn strict_schema(&self) -> Value {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let mut properties = Map::new();
        properties.insert(
            "config_version".to_owned(),
            json!({ "type": "integer", "description": "Version of the file's layout, as the original counts it." }),
        );
        for spec in &self.specs {
            properties.insert(spec.key.to_owned(), (spec.schema)(&mut generator).to_value());
        }
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": SCHEMA_ID,
            "title": "DeerFlow configuration",
            "description": "The file config.yaml. A text `$NAME` is replaced by that environment variable.",
            "type": "object",
            "properties": properties,
            "$defs": generator.take_definitions(/*apply_transforms*/ true),
        })
    }
}

fn build<S: Section>(value: Option<Value>) -> Result<Built, BuildError> {
    let mut problems = Problems::default();
    let section = match value {
        None => S::default(),
        Some(value) => {
            let section: S = serde_path_to_error::deserialize(value).map_err(|error| {
                let path = error.path().iter().filter_map(|segment| match segment {
                    serde_path_to_error::Segment::Seq { index } => Some(Segment::Index(*index)),
                    serde_path_to_error::Segment::Map { key } => Some(Segment::Key(key.clone())),
                    serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => None,
                });
                (KeyPath::from(path.collect::<Vec<_>>()), error.inner().to_string())
            })?;
            section.validate(&mut problems);
            section
        }
    };
    let effective = serde_json::to_value(&section).unwrap_or_else(|error| {
        tracing::error!(section = S::KEY, %error, "section cannot be shown");
        Value::Null
    });
    Ok(Built { section: Arc::new(section), effective, problems })
}

/// Makes the schema as lenient as loading is, as far as an editor has to know.
fn widen(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(widen),
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                let aliases: Vec<(String, Value)> =
                    properties.iter().flat_map(|(key, schema)| others(key, schema)).collect();
                for (alias, schema) in aliases {
                    properties.entry(alias).or_insert(schema);
                }
            }
            for (key, value) in map.iter_mut() {
                if !matches!(key.as_str(), "default" | "const" | "enum" | "examples" | "required") {
                    widen(value);
                }
            }
            allow_variable(map);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The schemas of a property's other names.
fn others(key: &str, schema: &Value) -> Vec<(String, Value)> {
    let aliases = schema.get("x-aliases").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let make = |alias: &str| {
        let mut schema = schema.clone();
        if let Value::Object(map) = &mut schema {
            map.remove("x-aliases");
            map.insert("description".to_owned(), format!("Another name of `{key}`.").into());
        }
        (alias.to_owned(), schema)
    };
    aliases.map(make).collect()
}

fn allow_variable(map: &mut Map<String, Value>) {
    let plain = |kind: &Value| matches!(kind.as_str(), Some("integer" | "number" | "boolean"));
    let kinds = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.clone(),
        Some(kind @ Value::String(_)) => vec![kind.clone()],
        _ => return,
    };
    if kinds.iter().any(plain) && !kinds.contains(&json!("string")) {
        let kinds: Vec<Value> = kinds.into_iter().chain([json!("string")]).collect();
        map.insert("type".to_owned(), kinds.into());
        map.insert("pattern".to_owned(), json!("^\\$[A-Za-z_][A-Za-z0-9_]*$"));
    }
}
