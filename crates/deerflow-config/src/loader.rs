//! Finds the file, reads it, and puts the layers together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::{Config, Loaded, fingerprint};
use crate::diagnostic::{ConfigError, Diagnostic, Severity};
use crate::file;
use crate::home::home_dir;
use crate::interpolate::{Missing, Unset, interpolate};
use crate::nearest::nearest;
use crate::node::{Entry, Kind, Node, Origin, Place};
use crate::overrides::{self, Override};
use crate::path::KeyPath;
use crate::redact::is_sensitive_key;
use crate::registry::{ProblemKind, Registry, Spec};
use crate::reporter::Reporter;
use crate::shape::Shape;
use crate::shape_check::check;

/// The environment variables, as a map so that loading is a pure function of it.
pub type Env = BTreeMap<String, String>;

/// Names the file to read; it must exist.
pub const CONFIG_PATH_VARIABLE: &str = "DEER_FLOW_CONFIG_PATH";
/// Names the folder for data.
pub const HOME_VARIABLE: &str = "DEER_FLOW_HOME";
/// Names the folder in which `config.yaml` is looked for, instead of the working directory.
pub const PROJECT_ROOT_VARIABLE: &str = "DEER_FLOW_PROJECT_ROOT";

const FILE_NAME: &str = "config.yaml";

/// Loads a [`Config`]. The file is the first of: the one given to [`Loader::file`], `DEER_FLOW_CONFIG_PATH`,
/// `config.yaml` in `DEER_FLOW_PROJECT_ROOT` or the working directory, `config.yaml` in the home folder. The first two
/// must exist; without any file everything has its default.
#[derive(Debug, Clone)]
pub struct Loader {
    registry: Registry,
    env: Env,
    cwd: PathBuf,
    file: Option<PathBuf>,
    flags: Vec<(String, String)>,
}

/// What [`Loader::check`] found.
#[derive(Debug)]
pub struct Checked {
    /// The file that was read, if any.
    pub source: Option<PathBuf>,
    /// Everything remarkable, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The configuration, unless there are errors.
    pub config: Option<Config>,
}

impl Checked {
    /// Whether any diagnostic is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

impl Loader {
    /// A loader for these sections, with an empty environment and `/` as working directory.
    pub fn new(registry: Registry) -> Self {
        Self { registry, env: Env::new(), cwd: PathBuf::from("/"), file: None, flags: Vec::new() }
    }

    /// The environment to read variables from.
    #[must_use]
    pub fn env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env = env.into_iter().collect();
        self
    }

    /// The environment as the system gives it, [`std::env::vars_os`]; variables that are not UTF-8 are left out.
    #[must_use]
    pub fn env_os(self, env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let utf8 = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        self.env(env.into_iter().filter_map(utf8))
    }

    /// The working directory, absolute.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// The file to read; it must exist.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Overrides one value, as a flag does: `set("title.enabled", "false")`. The text is read as YAML where no string is
    /// wanted. The last one wins.
    #[must_use]
    pub fn set(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.flags.push((path.into(), value.into()));
        self
    }

    /// The sections this loader knows.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Loads the configuration. Reads one file: call it from a blocking context.
    ///
    /// # Errors
    /// [`ConfigError`] with every error of the file when there is one, and when the file or the home folder cannot be had.
    /// A list entry that names an unset variable is a warning: that entry is refused when it is used.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let checked = self.run(Severity::Warning);
        match checked.config {
            Some(config) => Ok(config),
            None => Err(ConfigError { diagnostics: checked.diagnostics }),
        }
    }

    /// Loads and reports everything, for `config check`: list entries that cannot be used are errors too.
    pub fn check(&self) -> Checked {
        self.run(Severity::Error)
    }

    fn run(&self, partial: Severity) -> Checked {
        let home = match home_dir(&self.env, &self.cwd) {
            Ok(home) => home,
            Err(error) => {
                let mut reporter = Reporter::new("environment".to_owned(), None, partial);
                reporter.at_place(Severity::Error, Place::default(), error.to_string());
                return Checked { source: None, diagnostics: reporter.finish(), config: None };
            }
        };
        let (source, file_name) = match self.locate(&home) {
            Some((path, name)) => (Some(path), name),
            None => (None, "configuration".to_owned()),
        };
        let mut reporter = Reporter::new(file_name.clone(), None, partial);
        let root = match source.as_deref().map(file::read) {
            None => Some(Node::new(Kind::Map(Vec::new()), Place::default(), Origin::File)),
            Some(Ok(text)) => {
                reporter = Reporter::new(file_name, Some(&text), partial);
                file::parse(&text, &mut reporter)
            }
            Some(Err(message)) => {
                reporter.at_place(Severity::Error, Place::default(), message);
                None
            }
        };
        let other_name = self.cwd.join("config.yml");
        if source.is_none() && other_name.is_file() {
            reporter.at_place(Severity::Warning, Place::default(), "`config.yml` is not read, name it `config.yaml`");
        }
        match root {
            Some(root) => self.assemble(root, home, source, reporter),
            None => Checked { source, diagnostics: reporter.finish(), config: None },
        }
    }

    /// The file to read and how to call it.
    fn locate(&self, home: &Path) -> Option<(PathBuf, String)> {
        let var = |name: &str| self.env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = self.file.clone().or_else(|| var(CONFIG_PATH_VARIABLE)) {
            return Some((self.cwd.join(&path), path.display().to_string()));
        }
        let root = var(PROJECT_ROOT_VARIABLE);
        let project = match &root {
            Some(root) => (self.cwd.join(root).join(FILE_NAME), root.join(FILE_NAME).display().to_string()),
            None => (self.cwd.join(FILE_NAME), FILE_NAME.to_owned()),
        };
        let in_home = home.join(FILE_NAME);
        let in_home = (in_home.clone(), in_home.display().to_string());
        // Anything that is there counts, even what cannot be read: to pass it over in silence would surprise.
        [project, in_home].into_iter().find(|(path, _)| path.symlink_metadata().is_ok())
    }

    fn assemble(&self, mut root: Node, home: PathBuf, source: Option<PathBuf>, mut reporter: Reporter) -> Checked {
        let schema = self.registry.strict_schema();
        let shape = Shape::new(&schema, &schema);
        for one in self.overrides(&mut reporter) {
            overrides::apply(&mut root, &shape, &one, &mut reporter);
        }
        let mut config = Config { source: source.clone(), ..Config::new(home) };
        let Kind::Map(entries) = root.kind else {
            return Checked { source, diagnostics: reporter.finish(), config: None };
        };
        let mut entries: Vec<Entry> = entries.into_iter().filter(|entry| !entry.node.removed).collect();
        for spec in &self.registry.specs {
            let entry = entries.iter().position(|entry| entry.key == spec.key).map(|at| entries.remove(at));
            let node = entry.map(|entry| entry.node);
            let shape = shape.property(spec.key);
            if let Some(loaded) = self.section(spec, node, shape, &mut config.secret_pointers, &mut reporter) {
                config.sections.insert(spec.key, loaded);
            }
        }
        for mut entry in entries {
            self.remark_on_unowned(&entry, &mut reporter);
            let path = KeyPath::root().key(&entry.key);
            let shape = shape.property(&entry.key).unwrap_or_else(|| Shape::new(&Value::Null, &Value::Bool(true)));
            interpolate(&mut entry.node, &path, &self.env, Unset::Ignore, &mut reporter);
            check(&mut entry.node, &shape, &path, None, &mut reporter);
            collect_secrets(&entry.node, &format!("/{}", escape(&entry.key)), &mut config.secret_pointers);
            config.other.insert(entry.key, entry.node.to_value());
        }
        let stopped = reporter.has_errors();
        let diagnostics = reporter.finish();
        config.warnings.clone_from(&diagnostics);
        Checked { source, diagnostics, config: (!stopped).then_some(config) }
    }

    fn overrides(&self, reporter: &mut Reporter) -> Vec<Override> {
        let mut all = overrides::from_env(&self.env, reporter);
        for (text, value) in &self.flags {
            let name = format!("--set {text}");
            match KeyPath::parse(text) {
                Some(path) => all.push(Override { path, text: value.clone(), name: name.into(), any_case: false }),
                None => {
                    let node = Node::new(Kind::Null, Place::default(), Origin::Override(name.into()));
                    let message = "not a path, write `section.key` or `models[0].key`";
                    reporter.at_node(Severity::Error, &node, &KeyPath::root(), message).value = None;
                }
            }
        }
        all
    }

    /// Reads one section. `None` when it has errors, which are reported.
    fn section(
        &self,
        spec: &Spec,
        node: Option<Node>,
        shape: Option<Shape<'_>>,
        secrets: &mut Vec<String>,
        reporter: &mut Reporter,
    ) -> Option<Loaded> {
        let path = KeyPath::root().key(spec.key);
        let found_before = reporter.diagnostics.len();
        let mut node = node.unwrap_or_else(|| Node::new(Kind::Null, Place::default(), Origin::File));
        let missing = if spec.entries_may_lack_variables {
            self.interpolate_entries(&mut node, &path, reporter)
        } else {
            interpolate(&mut node, &path, &self.env, Unset::Refuse, reporter);
            Vec::new()
        };
        if let Some(shape) = &shape {
            check(&mut node, shape, &path, None, reporter);
        }
        mark_unset(&mut node, &missing);
        collect_secrets(&node, &format!("/{}", escape(spec.key)), secrets);
        let value = (node.kind != Kind::Null && !node.removed).then(|| node.to_value());
        let fingerprint = fingerprint(value.as_ref().unwrap_or(&Value::Null));
        let errors_before = reporter.diagnostics[found_before..].iter().any(|d| d.severity == Severity::Error);
        match (spec.build)(value) {
            Ok(built) => {
                for problem in built.problems.0 {
                    let severity = match problem.kind {
                        ProblemKind::Error => Severity::Error,
                        ProblemKind::Partial => reporter.partial(),
                        ProblemKind::Warning => Severity::Warning,
                    };
                    let at = node.deepest(&problem.path);
                    reporter.at_node(severity, at, &path.join(&problem.path), problem.message).help = problem.help;
                }
                let (section, effective) = (built.section, built.effective);
                Some(Loaded { section, effective, fingerprint, restart_only: spec.restart_only })
            }
            Err((inner, message)) => {
                // What was taken out for an error already reported may be missed here.
                if !errors_before {
                    let at = node.deepest(&inner);
                    reporter.at_node(Severity::Error, at, &path.join(&inner), message);
                }
                None
            }
        }
    }

    /// Interpolates a list section entry by entry; what each lacks, by position.
    fn interpolate_entries(&self, node: &mut Node, path: &KeyPath, reporter: &mut Reporter) -> Vec<Vec<Missing>> {
        let Kind::List(items) = &mut node.kind else {
            interpolate(node, path, &self.env, Unset::Refuse, reporter);
            return Vec::new();
        };
        let each = items.iter_mut().enumerate().map(|(index, item)| {
            let path = path.index(index);
            let mut missing = interpolate(item, &path, &self.env, Unset::Partial, reporter);
            let prefix = format!("{path}.");
            for one in &mut missing {
                one.key = one.key.strip_prefix(&prefix).unwrap_or(&one.key).to_owned();
            }
            missing
        });
        each.collect()
    }

    fn remark_on_unowned(&self, entry: &Entry, reporter: &mut Reporter) {
        let path = KeyPath::root().key(&entry.key);
        if entry.key == "config_version" {
            return;
        }
        if let Some((_, why)) = self.registry.absent.iter().find(|(key, _)| *key == entry.key) {
            reporter.at_key(Severity::Note, entry, &path, format!("has no effect yet: {why}"));
        } else if let Some(near) = nearest(&entry.key, self.registry.known_keys()) {
            reporter.at_key(Severity::Warning, entry, &path, format!("unknown section, did you mean `{near}`?"));
        } else if matches!(entry.node.origin, Origin::Override(_)) {
            reporter.at_key(Severity::Warning, entry, &path, "unknown section, nothing reads it");
        }
    }
}

/// Tells each list entry what it lacks: for an unset variable, or for a bad value that has been reported.
fn mark_unset(node: &mut Node, missing: &[Vec<Missing>]) {
    let Kind::List(items) = &mut node.kind else { return };
    for (item, missing) in items.iter_mut().zip(missing) {
        let place = item.place;
        let Kind::Map(entries) = &mut item.kind else { continue };
        let bad = entries.iter().filter(|entry| entry.node.removed && entry.node.kind != Kind::Null);
        let bad = bad.filter(|entry| !missing.iter().any(|one| one.key == entry.key));
        let unset = missing.iter().map(|one| format!("{}={}", one.key, one.variable));
        let texts: Vec<String> = unset.chain(bad.map(|entry| format!("{}=", entry.key))).collect();
        if texts.is_empty() {
            continue;
        }
        let new = |kind| Node::new(kind, place, Origin::File);
        let node = new(Kind::List(texts.into_iter().map(|text| new(Kind::String(text))).collect()));
        entries.push(Entry { key: "$unset".to_owned(), key_place: place, node });
    }
}

/// Pointers of the values that came from variables with a secret's name.
fn collect_secrets(node: &Node, pointer: &str, out: &mut Vec<String>) {
    if node.removed {
        return;
    }
    match (&node.kind, &node.origin) {
        (_, Origin::Variable(name)) if is_sensitive_key(name) => out.push(pointer.to_owned()),
        (Kind::Map(entries), _) => {
            for entry in entries {
                collect_secrets(&entry.node, &format!("{pointer}/{}", escape(&entry.key)), out);
            }
        }
        (Kind::List(items), _) => {
            for (index, item) in items.iter().filter(|item| !item.removed).enumerate() {
                collect_secrets(item, &format!("{pointer}/{index}"), out);
            }
        }
        _ => {}
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
