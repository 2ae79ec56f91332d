//! YAML text → [`Node`] tree, by way of serde-saphyr: YAML 1.1 scalars as PyYAML reads them, anchors, merges, budgets.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use crate::node::{Entry, Kind, Node, Origin, Place};

/// Deeper nesting than this is refused: no config needs it, and reading is recursive.
const MAX_DEPTH: usize = 64;
/// Most values in a file, aliases expanded.
const MAX_NODES: usize = 100_000;

/// Why text is not YAML.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlError {
    pub(crate) message: String,
    pub(crate) place: Place,
}

/// Reads one document. An empty text is null. Duplicate keys are kept: the caller reports them with both places.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let text_only = text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#')));
    if text_only {
        return Ok(Node::new(Kind::Null, Place::default(), Origin::File));
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error.location().map(place_of).unwrap_or_default();
        let full = error.without_snippet().to_string();
        // The place is said by the diagnostic; the library appends it in words.
        let message = full.split(" at line ").next().unwrap_or(&full);
        let message = message.strip_prefix("error: ").unwrap_or(message);
        YamlError { message: message.lines().next().unwrap_or("not YAML").trim().to_owned(), place }
    })
}

fn options() -> Options {
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    options.with_snippet = false;
    options.emit_comments = false;
    options.alias_limits.max_total_replayed_events = MAX_NODES;
    if let Some(budget) = &mut options.budget {
        budget.max_depth = MAX_DEPTH;
        budget.max_nodes = MAX_NODES;
    }
    options
}

fn place_of(location: Location) -> Place {
    let span = location.span();
    let bytes = span.byte_offset().zip(span.byte_len());
    Place {
        line: u32::try_from(location.line()).unwrap_or(u32::MAX),
        column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        bytes: bytes.and_then(|(offset, len)| Some((usize::try_from(offset).ok()?, usize::try_from(len).ok()?))),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Kind>::deserialize(deserializer)?;
        // Where it is defined: for an alias or a merge, the text that holds the value is what has to be mended.
        Ok(Node::new(spanned.value, place_of(spanned.defined), Origin::File))
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain YAML value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Kind, E> {
        Number::from_f64(value)
            .map(Kind::Number)
            .ok_or_else(|| E::custom("infinite and not-a-number are not supported"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Kind, E> {
        Ok(Kind::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Kind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, Node>()? {
            entries.push(Entry { key: key.value, key_place: place_of(key.defined), node });
        }
        Ok(Kind::Map(entries))
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
