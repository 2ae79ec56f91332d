//! Line breaks that a gateway escaped once too often: a backslash and an `n`, outside fenced code.

/// Turns them back, wherever the network cut.
#[derive(Debug)]
pub(super) struct Newlines {
    enabled: bool,
    /// Whether a backslash waits for what follows it.
    backslash: bool,
    /// Backticks in a row, up to here.
    ticks: usize,
    in_fence: bool,
}

impl Newlines {
    pub(super) fn new(enabled: bool) -> Self {
        Self { enabled, backslash: false, ticks: 0, in_fence: false }
    }

    pub(super) fn push(&mut self, text: &str) -> String {
        if !self.enabled {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if std::mem::take(&mut self.backslash) {
                if c == 'n' {
                    out.push('\n');
                    continue;
                }
                out.push('\\');
            }
            if c == '`' {
                self.ticks += 1;
                self.in_fence ^= self.ticks == 3;
            } else {
                self.ticks = 0;
            }
            if c == '\\' && !self.in_fence {
                self.backslash = true;
            } else {
                out.push(c);
            }
        }
        out
    }

    /// The end of the text: what waited.
    pub(super) fn finish(&mut self) -> String {
        if std::mem::take(&mut self.backslash) { "\\".to_owned() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_line_breaks_are_turned_back_outside_code_however_the_text_is_cut() {
        let text = r"a\nb \\ c\t ```sh\nprintf 'x\n'``` d\n\";
        let expected = "a\nb \\\\ c\\t ```sh\\nprintf 'x\\n'``` d\n\\";
        for size in 1..text.len() {
            let mut newlines = Newlines::new(true);
            let chars: Vec<char> = text.chars().collect();
            let out: String =
                chars.chunks(size).map(|piece| newlines.push(&piece.iter().collect::<String>())).collect();
            assert_eq!(out + &newlines.finish(), expected);
        }
        assert_eq!(Newlines::new(false).push(r"a\n"), r"a\n");
    }
}
