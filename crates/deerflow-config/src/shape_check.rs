//! Checks a tree against a [`Shape`]: finds every problem with its place, renames other spellings, and turns text from
//! variables and overrides into what its field wants. What has a problem is taken out, so that the rest can still be read.

use crate::diagnostic::Severity;
use crate::nearest::nearest;
use crate::node::{Kind, Node, Origin};
use crate::path::KeyPath;
use crate::reporter::Reporter;
use crate::shape::{Extra, Shape};
use crate::yaml;

/// Checks `node`, which stands at `path`. `owner` is the `name` of the list entry it belongs to, for messages.
pub(crate) fn check(node: &mut Node, shape: &Shape<'_>, path: &KeyPath, owner: Option<&str>, reporter: &mut Reporter) {
    if node.removed {
        return;
    }
    read_text(node, shape);
    if shape.is_anything() {
        return;
    }
    let kind = match &node.kind {
        Kind::Null => "null",
        Kind::Bool(_) => "boolean",
        Kind::Number(number) if number.is_f64() => "number",
        Kind::Number(_) => "integer",
        Kind::String(_) => "string",
        Kind::List(_) => "array",
        Kind::Map(_) => "object",
    };
    if !shape.accepts(kind) {
        if kind != "null" {
            let message = format!("expected {}, found {}", shape.expected(), reporter.found(node, path));
            let diagnostic = reporter.at_node(Severity::Error, node, path, message);
            if shape.accepts("string") && matches!(node.kind, Kind::Bool(_) | Kind::Number(_)) {
                diagnostic.help = Some("put the value in quotes to make it a string".to_owned());
            }
        }
        // A null where none is meant counts as absent.
        node.removed = true;
        return;
    }
    match &mut node.kind {
        Kind::Number(number) => {
            let range = number.as_f64().and_then(|number| shape.out_of_range(number));
            if let Some(range) = range {
                let message = format!("{range}, found {}", reporter.found(node, path));
                reporter.at_node(Severity::Error, node, path, message);
                node.removed = true;
            }
        }
        Kind::String(text) => {
            let Some(texts) = shape.texts() else { return };
            match texts.iter().find(|(known, _)| known == text) {
                Some((_, canonical)) => (*canonical).clone_into(text),
                None => {
                    let near = nearest(text, texts.iter().map(|(known, _)| *known));
                    let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
                    let found = reporter.found(node, path);
                    let known = texts.iter().filter(|(known, canonical)| known == canonical);
                    let known: Vec<_> = known.map(|(known, _)| format!("`{known}`")).collect();
                    let diagnostic =
                        reporter.at_node(Severity::Error, node, path, format!("unknown value {found}{hint}"));
                    diagnostic.help = Some(format!("one of {}", known.join(", ")));
                    node.removed = true;
                }
            }
        }
        Kind::List(items) => {
            let shape = shape.items();
            for (index, item) in items.iter_mut().enumerate() {
                let name = item.get("name").map(|entry| entry.node.kind.clone());
                let owner = match &name {
                    Some(Kind::String(name)) => Some(name.as_str()),
                    _ => owner,
                };
                check(item, &shape, &path.index(index), owner, reporter);
            }
        }
        Kind::Map(_) => check_map(node, shape, path, owner, reporter),
        Kind::Null | Kind::Bool(_) => {}
    }
}

fn check_map(node: &mut Node, shape: &Shape<'_>, path: &KeyPath, owner: Option<&str>, reporter: &mut Reporter) {
    rename_aliases(node, shape, path, reporter);
    let extra = shape.extra();
    let Kind::Map(entries) = &mut node.kind else { return };
    for entry in entries.iter_mut() {
        let path = path.key(&entry.key);
        if let Some(shape) = shape.property(&entry.key) {
            check(&mut entry.node, &shape, &path, owner, reporter);
            continue;
        }
        let of = owner.map(|owner| format!(" of `{owner}`")).unwrap_or_default();
        let known = shape.known_keys();
        let near = nearest(&entry.key, known.iter().copied()).filter(|near| *near != entry.key);
        let hint = near.map(|near| format!(", did you mean `{near}`?"));
        match &extra {
            Extra::Denied => {
                let message = format!("unknown key{of}{}", hint.unwrap_or_default());
                let diagnostic = reporter.at_key(Severity::Error, entry, &path, message);
                diagnostic.help = Some(list_of_keys(shape));
                entry.node.removed = true;
            }
            Extra::Ignored => {
                let message = format!("unknown key{of}{}", hint.unwrap_or_else(|| ", ignored".to_owned()));
                reporter.at_key(Severity::Warning, entry, &path, message).help = Some(list_of_keys(shape));
            }
            Extra::Kept(extra) => {
                let well_known = shape.known_extras();
                match hint {
                    _ if known.contains(&entry.key.as_str()) => {}
                    Some(hint) => {
                        let message = format!("unknown key{of}{hint}");
                        reporter.at_key(Severity::Warning, entry, &path, message).help =
                            Some("the key is passed on as it is".to_owned());
                    }
                    None if well_known.is_some() => {
                        let message = format!("unknown key{of}, passed on as it is");
                        reporter.at_key(Severity::Note, entry, &path, message);
                    }
                    None => {}
                }
                check(&mut entry.node, extra, &path, owner, reporter);
            }
        }
    }
    for key in shape.required() {
        // A key that was found bad, or whose variable is unset, has been reported.
        if node.get(key).is_none_or(|entry| entry.node.removed && entry.node.kind == Kind::Null) {
            reporter.at_node(Severity::Error, node, path, format!("missing key `{key}`"));
        }
    }
}

fn rename_aliases(node: &mut Node, shape: &Shape<'_>, path: &KeyPath, reporter: &mut Reporter) {
    let Kind::Map(entries) = &mut node.kind else { return };
    for at in 0..entries.len() {
        let Some(canonical) = shape.canonical(&entries[at].key).filter(|_| !entries[at].node.removed) else { continue };
        if let Some(taken) = entries.iter().position(|entry| entry.key == canonical && !entry.node.removed) {
            let alias_wins = matches!(entries[at].node.origin, Origin::Override(_));
            if !alias_wins {
                let message = format!("another name of `{canonical}`, which is set too and wins");
                reporter.at_key(Severity::Warning, &entries[at], &path.key(&entries[at].key), message);
            }
            entries[if alias_wins { taken } else { at }].node.removed = true;
        }
        canonical.clone_into(&mut entries[at].key);
    }
    // A loser must not hide the entry of the same name that is kept.
    entries.sort_by_key(|entry| entry.node.removed);
}

/// Text of a variable, an override or in quotes, where text is not what is wanted: reads it as the YAML it would be.
fn read_text(node: &mut Node, shape: &Shape<'_>) {
    let is_override = matches!(node.origin, Origin::Override(_));
    match &node.kind {
        Kind::String(text) if !shape.accepts("string") || (is_override && shape.is_anything()) => {
            let kind = match text.trim() {
                "" => Some(Kind::Null),
                "1" | "0" if !shape.accepts("integer") && shape.accepts("boolean") => {
                    Some(Kind::Bool(text.trim() == "1"))
                }
                text => yaml::parse(text).ok().map(|node| node.kind),
            };
            match kind {
                Some(Kind::Bool(_) | Kind::Number(_)) => {}
                Some(Kind::Null | Kind::List(_) | Kind::Map(_)) if is_override => {}
                _ => return,
            }
            let Some(mut kind) = kind else { return };
            inherit_origin(&mut kind, &node.origin);
            node.kind = kind;
        }
        Kind::String(text) if is_override && shape.accepts("null") && matches!(text.trim(), "" | "null" | "~") => {
            node.kind = Kind::Null;
        }
        _ => {}
    }
    if let Kind::Number(number) = &node.kind
        && !shape.accepts("number")
        && shape.accepts("integer")
        && let Some(whole) =
            number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < 9e15)
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53, checked above")]
        let whole = whole as i64;
        node.kind = Kind::Number(whole.into());
    }
}

/// Values inside an override's text have no place in the file.
fn inherit_origin(kind: &mut Kind, origin: &Origin) {
    let visit = |node: &mut Node| {
        node.place = crate::node::Place::default();
        node.origin = origin.clone();
        inherit_origin(&mut node.kind, origin);
    };
    match kind {
        Kind::List(items) => items.iter_mut().for_each(visit),
        Kind::Map(entries) => entries.iter_mut().map(|entry| &mut entry.node).for_each(visit),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => {}
    }
}

fn list_of_keys(shape: &Shape<'_>) -> String {
    let mut keys: Vec<String> = shape.properties().map(|(key, _)| format!("`{key}`")).collect();
    keys.dedup();
    match keys.len() {
        0 => "no keys are allowed here".to_owned(),
        1..=40 => format!("known keys: {}", keys.join(", ")),
        _ => format!("known keys: {}, ...", keys[..40].join(", ")),
    }
}
