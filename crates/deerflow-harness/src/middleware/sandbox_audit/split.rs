//! Takes a shell command apart: the simple commands, what joins them, the bodies of here-documents, and what is inside
//! substitutions. Enough of the shell's grammar to tell code from data; it runs nothing and never fails.

use std::borrow::Cow;

/// Deepest nesting of substitutions that is followed.
const MAX_DEPTH: usize = 48;

/// A part of the text. All of them put together are the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A simple command, with the blanks around it.
    Command(&'a str),
    /// `&&`, `||`, `;`, `;;`, `|`, `|&`, `&` or a line break.
    Operator(&'a str),
    /// The body of a here-document with the line that ends it.
    Heredoc {
        text: &'a str,
        /// The shell leaves it as it is; otherwise substitutions in it are run.
        literal: bool,
    },
}

/// A command taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Split<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    /// What is inside `$(…)`, backquotes, `<(…)` and `>(…)` where the shell would run it; the outermost ones.
    pub(super) substitutions: Vec<&'a str>,
    /// Every quote and bracket is closed. If not, there is one piece.
    pub(super) balanced: bool,
}

/// Takes a command apart.
pub(super) fn split(text: &str) -> Split<'_> {
    let mut scanner = Scanner::new(text);
    match scanner.commands(Close::End, 0) {
        Ok(()) => {
            scanner.piece_until(text.len());
            Split { pieces: scanner.pieces, substitutions: scanner.substitutions, balanced: true }
        }
        Err(Unbalanced) => {
            Split { pieces: vec![Piece::Command(text)], substitutions: scanner.substitutions, balanced: false }
        }
    }
}

/// What is inside the substitutions of a text that the shell would treat as if it were in double quotes.
pub(super) fn substitutions_in_quotes(text: &str) -> Vec<&str> {
    let mut scanner = Scanner::new(text);
    // What is not closed is not run.
    let _ = scanner.double_quoted(false, 0);
    scanner.substitutions
}

/// A quote or bracket is not closed.
struct Unbalanced;

/// What ends a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    End,
    Paren,
    Backquote,
}

/// A here-document that was announced on this line.
struct Pending {
    delimiter: String,
    literal: bool,
    strip_tabs: bool,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    pieces: Vec<Piece<'a>>,
    /// Where the piece being read begins.
    start: usize,
    substitutions: Vec<&'a str>,
    pending: Vec<Pending>,
    /// For each opening bracket where its counterpart is; made when first needed.
    brackets: Option<Vec<usize>>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            pieces: Vec::new(),
            start: 0,
            substitutions: Vec::new(),
            pending: Vec::new(),
            brackets: None,
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Over one character and its backslash.
    fn escaped(&mut self) {
        self.at += 1;
        self.character();
    }

    fn character(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
    }

    fn piece_until(&mut self, end: usize) {
        if end > self.start {
            self.pieces.push(Piece::Command(&self.text[self.start..end]));
        }
        self.start = end;
    }

    fn operator(&mut self, length: usize, top: bool) {
        if top {
            self.piece_until(self.at);
            self.pieces.push(Piece::Operator(&self.text[self.at..self.at + length]));
            self.start = self.at + length;
        }
        self.at += length;
    }

    /// Reads commands up to and not including what closes them.
    fn commands(&mut self, close: Close, depth: usize) -> Result<(), Unbalanced> {
        if depth > MAX_DEPTH {
            return Err(Unbalanced);
        }
        let top = depth == 0;
        let mut open = 0usize;
        let mut word_start = true;
        while !self.is_at_end() {
            let starts_word = std::mem::replace(&mut word_start, false);
            match (self.peek(0), self.peek(1)) {
                (b'\\', _) => self.escaped(),
                (b'\'', _) => self.single_quoted()?,
                (b'$', b'\'') => self.ansi_quoted()?,
                (b'"', _) => {
                    self.at += 1;
                    self.double_quoted(true, depth)?;
                }
                (b'`', _) if close == Close::Backquote => return Ok(()),
                (b'`', _) => self.substitution(1, Close::Backquote, depth)?,
                (b'$' | b'<' | b'>', b'(') => self.substitution(2, Close::Paren, depth)?,
                (b'(', b'(') if starts_word => self.arithmetic(2),
                (b'(', _) => {
                    open += 1;
                    word_start = true;
                    self.at += 1;
                }
                (b')', _) if open == 0 && close == Close::Paren => return Ok(()),
                (b')', _) => {
                    open = open.saturating_sub(1);
                    word_start = true;
                    self.at += 1;
                }
                (b'#', _) if starts_word => self.comment(),
                (b'<', b'<') if self.peek(2) == b'<' => self.at += 3,
                (b'<', b'<') => self.heredoc(),
                (b'\n', _) => {
                    self.operator(1, top);
                    self.heredoc_bodies(top);
                    word_start = true;
                }
                // `>&2`, `<&3` and `&>file` are redirections.
                (b'>' | b'<', b'&') => self.at += 2,
                (b'&', b'>') => self.at += 2,
                (b'&', b'&') | (b'|', b'|' | b'&') | (b';', b';') => {
                    self.operator(2, top);
                    word_start = true;
                }
                // Redirection over a protected file.
                (b'>', b'|') => self.at += 2,
                (b'&' | b'|' | b';', _) => {
                    self.operator(1, top);
                    word_start = true;
                }
                (b' ' | b'\t' | b'\r', _) => {
                    word_start = true;
                    self.at += 1;
                }
                _ => self.character(),
            }
        }
        if close == Close::End { Ok(()) } else { Err(Unbalanced) }
    }

    fn single_quoted(&mut self) -> Result<(), Unbalanced> {
        let end = self.text[self.at + 1..].find('\'').ok_or(Unbalanced)?;
        self.at += end + 2;
        Ok(())
    }

    fn ansi_quoted(&mut self) -> Result<(), Unbalanced> {
        self.at += 2;
        while !self.is_at_end() {
            match self.peek(0) {
                b'\\' => self.escaped(),
                b'\'' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => self.character(),
            }
        }
        Err(Unbalanced)
    }

    /// From behind the opening quote; to the end of the text when there is none to close it.
    fn double_quoted(&mut self, closes: bool, depth: usize) -> Result<(), Unbalanced> {
        while !self.is_at_end() {
            match (self.peek(0), self.peek(1)) {
                (b'\\', _) => self.escaped(),
                (b'"', _) if closes => {
                    self.at += 1;
                    return Ok(());
                }
                (b'`', _) => self.substitution(1, Close::Backquote, depth)?,
                (b'$', b'(') => self.substitution(2, Close::Paren, depth)?,
                _ => self.character(),
            }
        }
        if closes { Err(Unbalanced) } else { Ok(()) }
    }

    /// `opening` bytes, commands, one closing byte.
    fn substitution(&mut self, opening: usize, close: Close, depth: usize) -> Result<(), Unbalanced> {
        if self.text[self.at..].starts_with("$((") {
            let from = self.at;
            self.arithmetic(3);
            // Arithmetic may have substitutions inside.
            let inside = &self.text[(from + 3).min(self.at)..self.at];
            self.substitutions.extend(substitutions_one_deeper(inside, depth));
            return Ok(());
        }
        self.at += opening;
        let from = self.at;
        // Those of the body come out when the body itself is taken apart.
        let known = self.substitutions.len();
        let outer = std::mem::take(&mut self.pending);
        let read = self.commands(close, depth + 1);
        self.pending = outer;
        self.substitutions.truncate(known);
        self.substitutions.push(&self.text[from..self.at.min(self.text.len())]);
        read?;
        self.at += 1;
        Ok(())
    }

    /// Over `((…))` or `$((…))`: no here-documents, no operators. What is not closed goes on as ordinary text.
    fn arithmetic(&mut self, opening: usize) {
        let outer = self.at + opening - 2;
        self.at = match (self.counterpart(outer), self.counterpart(outer + 1)) {
            (Some(end), Some(inner)) if inner + 1 == end => end + 1,
            _ => self.at + opening,
        };
    }

    /// Where the bracket at this place is closed, if quotes are not looked at.
    fn counterpart(&mut self, at: usize) -> Option<usize> {
        let text = self.text;
        let brackets = self.brackets.get_or_insert_with(|| {
            let mut brackets = vec![usize::MAX; text.len()];
            let mut open = Vec::new();
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    b'(' => open.push(at),
                    b')' => {
                        if let Some(opened) = open.pop() {
                            brackets[opened] = at;
                        }
                    }
                    _ => {}
                }
            }
            brackets
        });
        brackets.get(at).copied().filter(|end| *end != usize::MAX)
    }

    fn comment(&mut self) {
        self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |end| self.at + end);
    }

    /// Over `<<` and its delimiter.
    fn heredoc(&mut self) {
        self.at += 2;
        let strip_tabs = self.peek(0) == b'-';
        if strip_tabs {
            self.at += 1;
        }
        while matches!(self.peek(0), b' ' | b'\t') {
            self.at += 1;
        }
        let from = self.at;
        let mut quote = None;
        for (offset, c) in self.text[from..].char_indices() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (Some(_), '\n') | (None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`') => break,
                _ => {}
            }
            self.at = from + offset + c.len_utf8();
        }
        let word = &self.text[from..self.at];
        let literal = word.contains(['\'', '"', '\\']);
        let delimiter: String = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        if !word.is_empty() {
            self.pending.push(Pending { delimiter, literal, strip_tabs });
        }
    }

    /// The bodies announced on the line that has just ended.
    fn heredoc_bodies(&mut self, top: bool) {
        for Pending { delimiter, literal, strip_tabs } in std::mem::take(&mut self.pending) {
            let from = self.at;
            // Without its last line it goes to the end.
            while !self.is_at_end() {
                let rest = &self.text[self.at..];
                let line = rest.split_inclusive('\n').next().unwrap_or(rest);
                self.at += line.len();
                let line = line.trim_end_matches('\n');
                let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
                if line == delimiter {
                    break;
                }
            }
            if top && self.at > from {
                self.pieces.push(Piece::Heredoc { text: &self.text[from..self.at], literal });
                self.start = self.at;
            }
        }
    }
}

fn substitutions_one_deeper(text: &str, depth: usize) -> Vec<&str> {
    let mut scanner = Scanner::new(text);
    let _ = scanner.double_quoted(false, depth + 1);
    scanner.substitutions
}

/// The words of a simple command without quotes. A substitution is a part of its word, blanks and all.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut scanner = Scanner::new(text);
    let mut word: Option<String> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => match chars.next() {
                // A line that goes on.
                Some((_, '\n')) => {}
                Some((_, c)) => word.get_or_insert_default().push(c),
                None => word.get_or_insert_default().push('\\'),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().map(|(_, c)| c).take_while(|c| *c != '\''));
            }
            '"' => {
                let word = word.get_or_insert_default();
                while let Some((_, c)) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => match chars.next() {
                            Some((_, c @ ('"' | '\\' | '$' | '`'))) => word.push(c),
                            Some((_, '\n')) => {}
                            Some((_, c)) => word.extend(['\\', c]),
                            None => word.push('\\'),
                        },
                        c => word.push(c),
                    }
                }
            }
            '$' | '`' if c == '`' || chars.peek().is_some_and(|(_, next)| *next == '(') => {
                let (opening, close) = if c == '`' { (1, Close::Backquote) } else { (2, Close::Paren) };
                scanner.at = at;
                // What is not closed goes to the end.
                let end = match scanner.substitution(opening, close, 0) {
                    Ok(()) => scanner.at.min(text.len()),
                    Err(Unbalanced) => text.len(),
                };
                word.get_or_insert_default().push_str(&text[at..end]);
                while chars.next_if(|(at, _)| *at < end).is_some() {}
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The text with lines joined that a backslash continues, and with single blanks. Line breaks stay: they end commands.
pub(super) fn normalise(text: &str) -> Cow<'_, str> {
    let mut plain = String::with_capacity(text.len());
    for c in text.replace("\\\n", "").chars() {
        match c {
            '\n' => plain.push('\n'),
            c if c.is_whitespace() => {
                if !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
