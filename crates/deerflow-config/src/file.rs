//! From a path to a tree: reads the file and parses it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::diagnostic::Severity;
use crate::node::{Kind, Node, Origin, Place};
use crate::path::KeyPath;
use crate::reporter::Reporter;
use crate::yaml;

/// A larger file is refused.
const MAX_BYTES: u64 = 4 << 20;

/// The text of the file, or why there is none.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    // Opening a FIFO would wait for a writer, so ask first.
    let meta = path.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err("is a folder, not a file".to_owned());
    }
    if !meta.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("is larger than {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 text (first bad byte on line {line})")
    })
}

/// The file's tree, without duplicate keys. `None` when there is none, which is reported.
pub(crate) fn parse(text: &str, reporter: &mut Reporter) -> Option<Node> {
    let mut root = match yaml::parse(text) {
        Ok(root) => root,
        Err(error) => {
            reporter.at_place(Severity::Error, error.place, error.message);
            return None;
        }
    };
    match root.kind {
        Kind::Map(_) => {
            report_duplicates(&mut root, &KeyPath::root(), reporter);
            Some(root)
        }
        Kind::Null => Some(Node::new(Kind::Map(Vec::new()), root.place, Origin::File)),
        _ => {
            let message = format!("expected a mapping of sections, found {}", root.describe_kind());
            reporter.at_node(Severity::Error, &root, &KeyPath::root(), message).value = None;
            None
        }
    }
}

fn report_duplicates(node: &mut Node, path: &KeyPath, reporter: &mut Reporter) {
    match &mut node.kind {
        Kind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                report_duplicates(item, &path.index(index), reporter);
            }
        }
        Kind::Map(entries) => {
            let mut first: BTreeMap<String, Place> = BTreeMap::new();
            for entry in entries {
                let path = path.key(&entry.key);
                if let Some(place) = first.get(&entry.key) {
                    let message = format!("duplicate key, first set at line {}, column {}", place.line, place.column);
                    reporter.at_key(Severity::Error, entry, &path, message);
                    reporter.also(*place, "first set here");
                    entry.node.removed = true;
                } else {
                    first.insert(entry.key.clone(), entry.key_place);
                    report_duplicates(&mut entry.node, &path, reporter);
                }
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => {}
    }
}
