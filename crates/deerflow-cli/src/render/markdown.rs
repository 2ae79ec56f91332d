//! Markdown as it streams in: each block is rendered when it is complete.

use termimad::MadSkin;

/// Collects text and gives back whole blocks.
#[derive(Default)]
pub(super) struct Blocks {
    pending: String,
    in_fence: bool,
}

impl Blocks {
    /// Takes a piece in, and gives the blocks that it completed. A block ends at a blank line outside a code fence.
    pub(super) fn push(&mut self, piece: &str) -> Option<String> {
        self.pending.push_str(piece);
        let mut end = 0;
        let mut at = 0;
        let mut in_fence = self.in_fence;
        let mut fence_at_end = in_fence;
        while let Some(length) = self.pending[at..].find('\n') {
            let line = self.pending[at..at + length].trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                in_fence = !in_fence;
            }
            at += length + 1;
            if line.is_empty() && !in_fence {
                end = at;
                fence_at_end = in_fence;
            }
        }
        if end == 0 {
            return None;
        }
        self.in_fence = fence_at_end;
        let rest = self.pending.split_off(end);
        Some(std::mem::replace(&mut self.pending, rest))
    }

    /// What is left.
    pub(super) fn take(&mut self) -> String {
        self.in_fence = false;
        std::mem::take(&mut self.pending)
    }
}

/// Renders a block for the terminal; without colours when `NO_COLOR` asks for that.
pub(super) fn render(text: &str) -> String {
    let skin = if std::env::var_os("NO_COLOR").is_some() { MadSkin::no_style() } else { MadSkin::default() };
    let (width, _) = termimad::terminal_size();
    let width = usize::from(width).clamp(40, 110);
    skin.text(text.trim_end(), Some(width)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn blocks_end_at_blank_lines_but_not_inside_code() {
        let text = "# A\n\npara one\nstill\n\n```\ncode\n\nmore\n```\n\nend";
        for size in 1..7 {
            let mut blocks = Blocks::default();
            let chars: Vec<char> = text.chars().collect();
            let mut got: Vec<String> =
                chars.chunks(size).filter_map(|c| blocks.push(&c.iter().collect::<String>())).collect();
            got.push(blocks.take());
            assert_eq!(got.concat(), text);
            assert!(got.iter().all(|b| b.matches("```").count() % 2 == 0), "{got:?}");
        }
    }
}
