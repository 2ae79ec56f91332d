//! The file as a tree in which every value knows where it stands.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use crate::path::{KeyPath, Segment};

/// A place in the file. Line and column count from 1, in characters; line 0 means "not in the file".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Byte offset and length in the source.
    pub(crate) bytes: Option<(usize, usize)>,
}

/// Where a value came from. Decides how its text is read and how a problem with it is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Written in the file.
    File,
    /// The value of the variable that the file names.
    Variable(Arc<str>),
    /// An override; the text says which (`DEER_FLOW__TITLE__ENABLED`, `--set title.enabled`).
    Override(Arc<str>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) origin: Origin,
    /// A problem with it was reported, or it counts as absent: left out of [`Node::to_value`].
    pub(crate) removed: bool,
}

impl Node {
    pub(crate) fn new(kind: Kind, place: Place, origin: Origin) -> Self {
        Self { kind, place, origin, removed: false }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The deepest node along `path` that exists, counting positions as [`Node::to_value`] does.
    pub(crate) fn deepest(&self, path: &KeyPath) -> &Node {
        let mut node = self;
        for segment in path.segments() {
            let child = match (&node.kind, segment) {
                (Kind::Map(entries), Segment::Key(key)) => {
                    entries.iter().find(|e| e.key == *key && !e.node.removed).map(|e| &e.node)
                }
                (Kind::List(items), Segment::Index(index)) => items.iter().filter(|item| !item.removed).nth(*index),
                _ => None,
            };
            match child {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// The plain value, without what was removed.
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(value) => Value::Number(value.clone()),
            Kind::String(value) => Value::String(value.clone()),
            Kind::List(items) => items.iter().filter(|item| !item.removed).map(Node::to_value).collect(),
            Kind::Map(entries) => {
                let kept = entries.iter().filter(|entry| !entry.node.removed);
                Value::Object(kept.map(|entry| (entry.key.clone(), entry.node.to_value())).collect::<Map<_, _>>())
            }
        }
    }

    /// The value in a few words for a message: `"abc"`, `12`, `a list`.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Bool(value) => format!("`{value}`"),
            Kind::Number(value) => format!("`{value}`"),
            Kind::String(value) if value.chars().count() > 60 => {
                format!("{:?}", value.chars().take(57).chain("...".chars()).collect::<String>())
            }
            Kind::String(value) => format!("{value:?}"),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
        }
    }

    /// What the value is, without its text; for secrets.
    pub(crate) fn describe_kind(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }
}
