//! The last layer: `DEER_FLOW__SECTION__KEY=value` variables and flags, set into the tree.

use std::sync::Arc;

use crate::diagnostic::Severity;
use crate::loader::Env;
use crate::node::{Entry, Kind, Node, Origin, Place};
use crate::path::{KeyPath, Segment};
use crate::reporter::Reporter;
use crate::shape::Shape;

/// Variables that start with this override the file: `DEER_FLOW__TITLE__ENABLED=false` is `title.enabled`,
/// `DEER_FLOW__MODELS__0__API_KEY` is `models[0].api_key`. Case is that of the key in question.
pub const OVERRIDE_PREFIX: &str = "DEER_FLOW__";

/// One value to set. Its text is read as YAML unless a string is wanted there.
#[derive(Debug, Clone)]
pub(crate) struct Override {
    pub(crate) path: KeyPath,
    pub(crate) text: String,
    /// What to call it in messages.
    pub(crate) name: Arc<str>,
    /// Whether keys match in any case.
    pub(crate) any_case: bool,
}

/// The overrides among the variables, in the order of their names. A name that has an empty step is reported.
pub(crate) fn from_env(env: &Env, reporter: &mut Reporter) -> Vec<Override> {
    let mut overrides = Vec::new();
    for (variable, text) in env.range(OVERRIDE_PREFIX.to_owned()..) {
        let Some(rest) = variable.strip_prefix(OVERRIDE_PREFIX) else { break };
        let segments = rest.split("__").enumerate().map(|(position, part)| match part.parse() {
            Ok(index) if position > 0 => Segment::Index(index),
            _ => Segment::Key(part.to_ascii_lowercase()),
        });
        let segments: Vec<Segment> = segments.collect();
        if segments.contains(&Segment::Key(String::new())) {
            let node =
                Node::new(Kind::String(String::new()), Place::default(), Origin::Override(variable.as_str().into()));
            let message = format!("not a name for an override: write `{OVERRIDE_PREFIX}SECTION__KEY`");
            reporter.at_node(Severity::Error, &node, &KeyPath::root(), message).value = None;
            continue;
        }
        let path = KeyPath::from(segments);
        overrides.push(Override { path, text: text.clone(), name: variable.as_str().into(), any_case: true });
    }
    overrides
}

/// Sets one value into the tree, making the mappings on the way.
pub(crate) fn apply(root: &mut Node, shape: &Shape<'_>, one: &Override, reporter: &mut Reporter) {
    let origin = Origin::Override(Arc::clone(&one.name));
    let mut node = root;
    let mut shape = Some(shape.clone());
    let mut path = KeyPath::root();
    for segment in one.path.segments() {
        if node.kind == Kind::Null || node.removed {
            let empty = if matches!(segment, Segment::Key(_)) { Kind::Map(Vec::new()) } else { Kind::List(Vec::new()) };
            *node = Node::new(empty, node.place, origin.clone());
        }
        let fault = match (&node.kind, segment) {
            (Kind::Map(_), _) => None,
            (Kind::List(items), Segment::Index(index)) if *index <= items.len() => None,
            (Kind::List(items), Segment::Index(index)) => {
                Some(format!("cannot set entry {index} of a list of {}", items.len()))
            }
            (_, Segment::Key(key)) => Some(format!("cannot set `{key}` in {}", node.describe_kind())),
            (_, Segment::Index(index)) => Some(format!("cannot set entry {index} of {}", node.describe_kind())),
        };
        if let Some(fault) = fault {
            let problem = Node::new(Kind::String(one.text.clone()), Place::default(), origin);
            reporter.at_node(Severity::Error, &problem, &path, fault);
            return;
        }
        let empty = || Node::new(Kind::Null, Place::default(), origin.clone());
        node = match &mut node.kind {
            Kind::List(items) => {
                let Segment::Index(index) = segment else { return };
                path = path.index(*index);
                shape = shape.map(|shape| shape.items());
                if *index == items.len() {
                    items.push(empty());
                }
                &mut items[*index]
            }
            Kind::Map(entries) => {
                let wanted = match segment {
                    Segment::Key(key) => key.clone(),
                    Segment::Index(index) => index.to_string(),
                };
                let key = spelling(&wanted, entries, shape.as_ref(), one.any_case);
                path = path.key(&key);
                shape = shape.and_then(|shape| shape.property(&key));
                let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
                    entries.push(Entry { key, key_place: Place::default(), node: empty() });
                    entries.len() - 1
                });
                &mut entries[at].node
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => return,
        };
    }
    *node = Node::new(Kind::String(one.text.clone()), Place::default(), origin);
}

/// The key as the file or the section spells it.
fn spelling(wanted: &str, entries: &[Entry], shape: Option<&Shape<'_>>, any_case: bool) -> String {
    let same = |key: &str| if any_case { key.eq_ignore_ascii_case(wanted) } else { key == wanted };
    let in_file = entries.iter().map(|entry| entry.key.as_str()).find(|key| same(key));
    let in_shape = || shape.and_then(|shape| shape.properties().map(|(key, _)| key).find(|key| same(key)));
    in_file.or_else(in_shape).unwrap_or(wanted).to_owned()
}
