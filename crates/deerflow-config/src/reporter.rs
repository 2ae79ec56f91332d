//! Gathers the problems of one load.

use std::sync::Arc;

use miette::NamedSource;

use crate::diagnostic::{Diagnostic, Severity};
use crate::node::{Entry, Node, Origin, Place};
use crate::path::KeyPath;
use crate::redact;

/// Makes [`Diagnostic`]s with their place and source, and keeps them.
#[derive(Debug)]
pub(crate) struct Reporter {
    file: String,
    source: Option<Arc<NamedSource<String>>>,
    /// Severity of what stops only a part: an error when checking, a warning when loading.
    partial: Severity,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Reporter {
    /// For the file shown as `file`, with its text if it could be read.
    pub(crate) fn new(file: String, text: Option<&str>, partial: Severity) -> Self {
        let source =
            text.map(|text| Arc::new(NamedSource::new(&file, redact::mask_source(text)).with_language("yaml")));
        Self { file, source, partial, diagnostics: Vec::new() }
    }

    /// The severity of a problem that stops only the part it is in.
    pub(crate) fn partial(&self) -> Severity {
        self.partial
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// A problem of the file as a whole, or at a bare place in it.
    pub(crate) fn at_place(&mut self, severity: Severity, place: Place, message: impl Into<String>) -> &mut Diagnostic {
        self.push(severity, place, &Origin::File, &KeyPath::root(), message.into())
    }

    /// A problem of a value.
    pub(crate) fn at_node(
        &mut self,
        severity: Severity,
        node: &Node,
        path: &KeyPath,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let value = self.found(node, path);
        let diagnostic = self.push(severity, node.place, &node.origin, path, message.into());
        diagnostic.value = Some(value);
        diagnostic
    }

    /// A problem of a key.
    pub(crate) fn at_key(
        &mut self,
        severity: Severity,
        entry: &Entry,
        path: &KeyPath,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let value = self.found(&entry.node, path);
        let diagnostic = self.push(severity, entry.key_place, &entry.node.origin, path, message.into());
        diagnostic.value = Some(value);
        diagnostic
    }

    /// The value in words, without its text if it may be a secret.
    pub(crate) fn found(&self, node: &Node, path: &KeyPath) -> String {
        let from_secret = matches!(&node.origin, Origin::Variable(name) if redact::is_sensitive_key(name));
        if from_secret || redact::is_sensitive_path(path.keys()) {
            return match node.kind {
                // `max_tokens` has the look of a secret and its numbers are not.
                crate::node::Kind::Number(_) if !from_secret => node.describe(),
                _ => node.describe_kind().to_owned(),
            };
        }
        let text = node.describe();
        redact::without_password(&text).unwrap_or(text)
    }

    fn push(
        &mut self,
        severity: Severity,
        place: Place,
        origin: &Origin,
        path: &KeyPath,
        mut message: String,
    ) -> &mut Diagnostic {
        let mut diagnostic = Diagnostic {
            severity,
            file: self.file.clone(),
            line: place.line,
            column: place.column,
            path: path.to_string(),
            value: None,
            message: String::new(),
            help: None,
            source: self.source.clone(),
            labels: Vec::new(),
        };
        match origin {
            Origin::File => {}
            Origin::Variable(name) => message.push_str(&format!(" (the value of `${name}`)")),
            Origin::Override(name) => {
                name.as_ref().clone_into(&mut diagnostic.file);
                (diagnostic.line, diagnostic.column) = (0, 0);
            }
        }
        if diagnostic.line > 0 {
            self.label(&mut diagnostic, place, None);
        }
        diagnostic.message = message;
        let at = self.diagnostics.len();
        self.diagnostics.push(diagnostic);
        &mut self.diagnostics[at]
    }

    fn label(&self, diagnostic: &mut Diagnostic, place: Place, text: Option<String>) {
        let Some(source) = self.source.as_ref().map(|source| source.inner()) else { return };
        let (at, len) = place.bytes.unwrap_or_else(|| (offset_of(source, place), 0));
        if at <= source.len() {
            diagnostic.labels.push((at, len.min(source.len() - at), text));
        }
    }

    /// Adds a second pointer to the newest problem.
    pub(crate) fn also(&mut self, place: Place, text: &str) {
        if let Some(mut diagnostic) = self.diagnostics.pop() {
            self.label(&mut diagnostic, place, Some(text.to_owned()));
            self.diagnostics.push(diagnostic);
        }
    }

    /// What was found, in the order of the file, the worst first at one place.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|d| (d.line, d.column, std::cmp::Reverse(d.severity)));
        self.diagnostics
    }
}

/// Byte offset of a line and column, at most the end of that line.
fn offset_of(source: &str, place: Place) -> usize {
    let (line, column) = (place.line.saturating_sub(1) as usize, place.column.saturating_sub(1) as usize);
    let Some(text) = source.split_inclusive('\n').nth(line) else { return source.len() };
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let text = text.trim_end_matches(['\n', '\r']);
    start + text.char_indices().nth(column).map_or(text.len(), |(at, _)| at)
}
