//! Program text, told by its imports and declarations.

use super::{Kind, Synopsis, VALUE_CHARS, one_line};
use std::collections::HashSet;

/// Imports and declarations shown.
const IMPORTS: usize = 12;
const SYMBOLS: usize = 24;
/// One such line may be prose: "import duties", "class of 1999".
const MIN_DECLARATIONS: usize = 2;

const MODIFIERS: [&str; 13] = [
    "pub",
    "pub(crate)",
    "pub(super)",
    "export",
    "default",
    "async",
    "public",
    "private",
    "protected",
    "static",
    "abstract",
    "final",
    "unsafe",
];
const KEYWORDS: [&str; 10] = ["class", "def", "function", "fn", "func", "struct", "enum", "trait", "interface", "impl"];

enum Declaration<'a> {
    Import(&'a str),
    Symbol(&'a str, &'a str),
}

pub(super) fn looks_like_code(text: &str) -> bool {
    text.lines().filter_map(declaration).take(MIN_DECLARATIONS).count() == MIN_DECLARATIONS
}

pub(super) fn code(text: &str) -> Option<Synopsis> {
    if !looks_like_code(text) {
        return None;
    }
    let (mut imports, mut symbols) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let mut lines = 0_usize;
    for line in text.lines() {
        lines += 1;
        match declaration(line) {
            Some(Declaration::Import(module)) if imports.len() < IMPORTS && seen.insert(module) => {
                imports.push(one_line(module, VALUE_CHARS));
            }
            Some(Declaration::Symbol(keyword, name)) if symbols.len() < SYMBOLS => {
                symbols.push(format!("line {lines}: {keyword} {}", one_line(name, VALUE_CHARS)));
            }
            _ => {}
        }
    }
    let mut synopsis = Synopsis::new(Kind::Code, "Code output", format!("Program text with {lines} lines."));
    if !imports.is_empty() {
        synopsis.structure.push(format!("imports: {}", imports.join(", ")));
    }
    synopsis.notable = symbols;
    Some(synopsis)
}

fn declaration(line: &str) -> Option<Declaration<'_>> {
    let line = deerflow_core::text::head(line, 300).trim();
    import(line)
        .map(Declaration::Import)
        .or_else(|| symbol(line).map(|(keyword, name)| Declaration::Symbol(keyword, name)))
}

fn import(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("from ") {
        let (module, rest) = rest.trim_start().split_once(' ')?;
        return rest.trim_start().starts_with("import ").then_some(module);
    }
    if let Some(rest) = line.strip_prefix("#include") {
        return Some(rest.trim()).filter(|file| file.starts_with(['<', '"']));
    }
    if let Some(rest) = line.strip_prefix("use ") {
        return rest.strip_suffix(';').filter(|path| path.contains("::"));
    }
    let rest = line.strip_prefix("import ")?.trim().trim_end_matches(';');
    let mut words = rest.split_whitespace();
    match (words.next()?, words.next(), words.next_back()) {
        (module, None, None) | (module, Some("as"), Some(_)) => Some(module),
        (first, Some(_), None) if first.ends_with(',') => Some(rest),
        (_, Some("from"), Some(module)) => Some(module),
        (first, Some(_), Some(module)) if first.starts_with(['{', '*']) => Some(module),
        _ => None,
    }
}

/// Keyword and name of a declaration. What follows a name tells it from prose.
fn symbol(line: &str) -> Option<(&str, &str)> {
    let mut rest = line;
    let keyword = loop {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        if KEYWORDS.contains(&word) {
            break word;
        }
        if !MODIFIERS.contains(&word) {
            return None;
        }
    };
    if keyword == "func" && rest.starts_with('(') {
        // Go: the receiver comes first.
        rest = rest.split_once(')')?.1.trim_start();
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let after = after.trim_start();
    let declared = after.is_empty()
        || after.starts_with(['(', ':', '{', '<', '=', ';', '['])
        || ["extends ", "implements ", "for "].iter().any(|word| after.starts_with(word));
    (declared && name.starts_with(|c: char| c.is_alphabetic() || c == '_')).then_some((keyword, name))
}
