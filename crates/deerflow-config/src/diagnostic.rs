//! One problem with its place, and how it is shown.

use std::fmt;
use std::sync::Arc;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};

/// How bad a [`Diagnostic`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// For information: the value is accepted.
    Note,
    /// Probably not what was meant, but the rest works.
    Warning,
    /// The configuration is refused.
    Error,
}

/// A problem of the configuration. `Display` is one plain line,
/// ``config.yaml:12:5: models[0].api_bsae: unknown key, did you mean `api_base`?``; as a [`miette::Diagnostic`] it also has the
/// source around it, with secrets starred out.
#[derive(Clone)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file as it was given, or the name of the variable or flag that holds the value.
    pub file: String,
    /// Line from 1; 0 when it is not at a place in a file.
    pub line: u32,
    /// Column from 1, in characters; 0 when it is not at a place in a file.
    pub column: u32,
    /// The path of the value, `models[0].base_url`; empty for the whole file.
    pub path: String,
    /// The bad value in a few words, absent where there is none; never a secret.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it, when that is known.
    pub help: Option<String>,
    pub(crate) source: Option<Arc<NamedSource<String>>>,
    pub(crate) labels: Vec<(usize, usize, Option<String>)>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.severity)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Note => miette::Severity::Advice,
            Severity::Warning => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_deref().filter(|_| !self.labels.is_empty()).map(|source| source as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labels = self.labels.iter();
        Some(Box::new(labels.map(|(at, len, text)| LabeledSpan::new(text.clone(), *at, *len))))
    }
}

/// The configuration cannot be used. `Display` is one line a problem.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", lines(.diagnostics))]
pub struct ConfigError {
    /// What was found: at least one error, and the warnings and notes met on the way.
    pub diagnostics: Vec<Diagnostic>,
}

impl ConfigError {
    /// The errors alone.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|d| d.severity == Severity::Error)
    }
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
    errors.map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

/// The diagnostics for a terminal: each with its source lines and a pointer. `color` is the caller's knowledge of the
/// terminal; `width` in columns.
pub fn render(diagnostics: &[Diagnostic], color: bool, width: usize) -> String {
    let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(width.max(20)).with_links(false);
    let mut out = String::new();
    for diagnostic in diagnostics {
        let start = out.len();
        if handler.render_report(&mut out, diagnostic).is_err() {
            // Rendering a span can fail; the plain line cannot.
            out.truncate(start);
            out.push_str(&diagnostic.to_string());
            out.push('\n');
        }
    }
    out
}
