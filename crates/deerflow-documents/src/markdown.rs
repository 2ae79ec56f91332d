//! Small Markdown writers shared by every format.

/// Collects blocks, one blank line between them, up to a number of characters.
#[derive(Debug)]
pub(crate) struct Blocks {
    text: String,
    chars: usize,
    max_chars: usize,
    full: bool,
}

impl Blocks {
    pub(crate) fn new(max_chars: usize) -> Self {
        Self { text: String::new(), chars: 0, max_chars, full: false }
    }

    /// Adds one block; blank ones are ignored, and everything after the limit is.
    pub(crate) fn push(&mut self, block: &str) {
        let block = block.trim_matches(['\n', '\r']).trim_end();
        if block.trim().is_empty() || self.full {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
            self.chars += 2;
        }
        self.append(block);
    }

    /// Adds a line to the block before (list items, lines of a paragraph).
    pub(crate) fn push_line(&mut self, line: &str) {
        if line.trim().is_empty() || self.full {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
            self.chars += 1;
        }
        self.append(line.trim_end());
    }

    fn append(&mut self, text: &str) {
        let room = self.max_chars.saturating_sub(self.chars);
        let count = text.chars().count();
        if count <= room {
            self.text.push_str(text);
            self.chars += count;
        } else {
            self.text.extend(text.chars().take(room));
            self.chars = self.max_chars;
            self.full = true;
        }
    }

    /// Whether the limit was reached: the rest of the document need not be read.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// A Markdown table; the first row is the heading. Empty for no rows; short rows are padded.
pub(crate) fn table<R, C>(rows: &[R]) -> String
where
    R: AsRef<[C]>,
    C: AsRef<str>,
{
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let mut out = String::new();
    if columns == 0 {
        return out;
    }
    for (index, row) in rows.iter().enumerate() {
        out.push('|');
        for column in 0..columns {
            out.push(' ');
            out.push_str(&cell(row.as_ref().get(column).map_or("", AsRef::as_ref)));
            out.push_str(" |");
        }
        out.push('\n');
        if index == 0 {
            out.push('|');
            out.push_str(&" --- |".repeat(columns));
            out.push('\n');
        }
    }
    out.pop();
    out
}

/// Text inside a table cell: one line, pipes escaped.
fn cell(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(first) = lines.next() {
        out.push_str(first);
    }
    for line in lines {
        out.push_str("<br>");
        out.push_str(line);
    }
    // A pipe that is already escaped must not become an escaped backslash and a bare pipe.
    let mut escaped = String::with_capacity(out.len());
    let mut previous = ' ';
    for character in out.chars() {
        if character == '|' && previous != '\\' {
            escaped.push('\\');
        }
        escaped.push(character);
        previous = character;
    }
    escaped
}

/// One line of text: every run of white space is one space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Drops trailing space, control characters and repeated blank lines; ends with one newline (or is empty).
pub(crate) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    let mut blank = 0_usize;
    for line in text.lines() {
        // Two trailing spaces are a Markdown line break, which the line ending already shows to every reader here.
        let line = line.trim_end();
        if line.is_empty() {
            blank += 1;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if blank > 0 { "\n\n" } else { "\n" });
        }
        blank = 0;
        out.extend(line.chars().filter(|character| !character.is_control() || *character == '\t'));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_pads_short_rows_and_escapes_pipes_and_line_breaks() {
        let rows = vec![vec!["a", "b"], vec!["x|y\nz"], vec![r"p\|q", "2"]];
        assert_eq!(table(&rows), "| a | b |\n| --- | --- |\n| x\\|y<br>z |  |\n| p\\|q | 2 |");
        assert_eq!(table::<Vec<&str>, &str>(&[]), "");
    }

    #[test]
    fn blocks_stop_at_the_limit_on_a_character() {
        let mut blocks = Blocks::new(6);
        blocks.push("abc");
        blocks.push("王丽王丽");
        blocks.push("never");
        assert!(blocks.is_full());
        assert_eq!(blocks.into_text(), "abc\n\n王");
    }

    #[test]
    fn tidy_keeps_one_blank_line_and_drops_control_characters() {
        assert_eq!(tidy("\n\na \u{0}b\n\n\n\nc\n"), "a b\n\nc\n");
        assert_eq!(tidy(" \n"), "");
    }
}
