//! `$NAME` → the value of that variable.

use crate::loader::Env;
use crate::nearest::nearest;
use crate::node::{Kind, Node, Origin};
use crate::path::KeyPath;
use crate::reporter::Reporter;

/// What an unset variable means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unset {
    /// An error.
    Refuse,
    /// The value is absent and the list entry it is in cannot be used: an error only when checking.
    Partial,
    /// The value is absent, without a word: nobody reads this section.
    Ignore,
}

/// What was left out of one list entry: `key` (below the entry) and the variable it wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) key: String,
    pub(crate) variable: String,
}

/// Replaces `$NAME` strings below `node` and takes out those whose variable is unset, which it returns.
pub(crate) fn interpolate(
    node: &mut Node,
    path: &KeyPath,
    env: &Env,
    unset: Unset,
    reporter: &mut Reporter,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    walk(node, path, env, unset, reporter, &mut missing);
    missing
}

fn walk(node: &mut Node, path: &KeyPath, env: &Env, unset: Unset, reporter: &mut Reporter, missing: &mut Vec<Missing>) {
    // An override is the last layer: what it says is meant.
    if node.removed || node.origin != Origin::File {
        return;
    }
    match &mut node.kind {
        Kind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, &path.index(index), env, unset, reporter, missing);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                walk(&mut entry.node, &path.key(&entry.key), env, unset, reporter, missing);
            }
        }
        Kind::String(text) => {
            if text.starts_with("$$") {
                text.remove(0);
                return;
            }
            let Some(name) = variable_name(text).map(str::to_owned) else {
                warn_of_braces(node, path, reporter);
                return;
            };
            match env.get(&name) {
                // An empty variable is how compose files pass on one that is not set.
                Some(value) if !(value.is_empty() && unset == Unset::Partial) => {
                    node.kind = Kind::String(value.clone());
                    node.origin = Origin::Variable(name.into());
                }
                found => {
                    if unset != Unset::Ignore {
                        let severity = match unset {
                            Unset::Partial => reporter.partial(),
                            Unset::Refuse | Unset::Ignore => crate::Severity::Error,
                        };
                        let state = if found.is_some() { "empty" } else { "not set" };
                        let message = format!("environment variable `{name}` is {state}");
                        let near = nearest(&name, env.keys().map(String::as_str)).filter(|near| *near != name);
                        let help = match near {
                            Some(near) => format!("did you mean `${near}`?"),
                            None => format!("set `{name}`, or write `$$` for a literal dollar sign"),
                        };
                        reporter.at_node(severity, node, path, message).help = Some(help);
                    }
                    missing.push(Missing { key: path.to_string(), variable: name });
                    node.removed = true;
                }
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) => {}
    }
}

/// `NAME` if the text is `$NAME` and nothing else.
fn variable_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (plain && !name.as_bytes()[0].is_ascii_digit()).then_some(name)
}

/// `${NAME}` looks as if it were replaced and is not.
fn warn_of_braces(node: &Node, path: &KeyPath, reporter: &mut Reporter) {
    if let Kind::String(text) = &node.kind
        && let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && variable_name(&format!("${name}")).is_some()
    {
        let message = format!("`${{{name}}}` is taken literally");
        let help = format!("write `${name}` for the value of the variable");
        reporter.at_node(crate::Severity::Warning, node, path, message).help = Some(help);
    }
}
