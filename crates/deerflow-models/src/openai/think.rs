//! Splits a leading `<think>…</think>` off the visible text.
//!
//! Only a tag at the very start counts: everywhere else it is text (a code span that mentions it, say). A tag that is never
//! closed does not hide the answer, see [`ThinkSplitter::unclosed`].

const TAGS: &[(&str, &str)] = &[("<think>", "</think>"), ("<thinking>", "</thinking>")];

#[derive(Debug)]
enum State {
    /// Nothing decided yet; the text so far.
    Start(String),
    /// Inside the tag; the end of the text that may be the start of the closing tag.
    Thinking {
        tail: String,
        close: &'static str,
    },
    /// Behind the closing tag, where line breaks are skipped.
    After,
    Text,
}

/// What a piece of text became.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) reasoning: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct ThinkSplitter {
    state: State,
    thought: String,
}

impl ThinkSplitter {
    pub(super) fn new(enabled: bool) -> Self {
        Self { state: if enabled { State::Start(String::new()) } else { State::Text }, thought: String::new() }
    }

    pub(super) fn push(&mut self, piece: &str) -> Split {
        let mut split = Split::default();
        self.take(piece, &mut split);
        self.thought.push_str(&split.reasoning);
        split
    }

    fn take(&mut self, piece: &str, split: &mut Split) {
        match &mut self.state {
            State::Text => split.text.push_str(piece),
            State::After => {
                let rest = piece.trim_start();
                if !rest.is_empty() {
                    split.text.push_str(rest);
                    self.state = State::Text;
                }
            }
            State::Start(held) => {
                held.push_str(piece);
                let start = held.trim_start();
                if let Some((open, close)) = TAGS.iter().find(|(open, _)| start.starts_with(open)) {
                    let rest = start[open.len()..].to_owned();
                    self.state = State::Thinking { tail: String::new(), close };
                    self.take(&rest, split);
                } else if !TAGS.iter().any(|(open, _)| open.starts_with(start)) {
                    split.text.push_str(held);
                    self.state = State::Text;
                }
            }
            State::Thinking { tail, close } => {
                let mut all = std::mem::take(tail);
                all.push_str(piece);
                if let Some(at) = all.find(*close) {
                    split.reasoning.push_str(&all[..at]);
                    let rest = all[at + close.len()..].to_owned();
                    self.state = State::After;
                    self.take(&rest, split);
                } else {
                    let keep = partial_end(&all, close);
                    split.reasoning.push_str(&all[..all.len() - keep]);
                    all.drain(..all.len() - keep);
                    *tail = all;
                }
            }
        }
    }

    /// The end of the text: what was held back.
    pub(super) fn finish(&mut self) -> Split {
        let mut split = Split::default();
        match &mut self.state {
            State::Start(held) => split.text = std::mem::take(held),
            State::Thinking { tail, .. } => split.reasoning = std::mem::take(tail),
            State::After | State::Text => {}
        }
        self.thought.push_str(&split.reasoning);
        split
    }

    /// What stands behind a tag that was never closed.
    pub(super) fn unclosed(&self) -> Option<&str> {
        matches!(self.state, State::Thinking { .. }).then_some(self.thought.trim()).filter(|text| !text.is_empty())
    }
}

/// Length of the longest end of `text` that is a start of `close`.
fn partial_end(text: &str, close: &str) -> usize {
    (1..close.len()).rev().find(|length| text.ends_with(&close[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str, size: usize) -> (String, String, Option<String>) {
        let mut splitter = ThinkSplitter::new(true);
        let mut all = Split::default();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size.max(1)) {
            let part = splitter.push(&piece.iter().collect::<String>());
            all.reasoning += &part.reasoning;
            all.text += &part.text;
        }
        let part = splitter.finish();
        (all.reasoning + &part.reasoning, all.text + &part.text, splitter.unclosed().map(str::to_owned))
    }

    /// BR-026
    #[test]
    fn only_a_leading_tag_is_split_off() {
        for size in 1..20 {
            assert_eq!(split("\n<think>plan 你</think>\n\nanswer", size), ("plan 你".into(), "answer".into(), None));
            let code = "Use `<think>` tags, as in <think>x</think>.";
            assert_eq!(split(code, size), (String::new(), code.into(), None));
            assert_eq!(split("<thin ice", size), (String::new(), "<thin ice".into(), None));
            assert_eq!(split("<thinking>a</think>b</thinking>c", size), ("a</think>b".into(), "c".into(), None));
        }
    }

    /// BR-026
    #[test]
    fn an_unclosed_tag_is_known_at_the_end() {
        assert_eq!(split("<think>plan </thi", 3), ("plan </thi".into(), String::new(), Some("plan </thi".into())));
        assert_eq!(split("<think>", 2), (String::new(), String::new(), None));
    }

    proptest! {
        #[test]
        fn chunking_never_matters_and_nothing_is_lost(text in "(<think>)?[a<>/think \n你]{0,30}(</think>)?[a-z ]{0,5}", size in 1usize..6) {
            let whole = split(&text, 1000);
            prop_assert_eq!(&split(&text, size), &whole);
            if !text.trim_start().starts_with("<think>") {
                prop_assert_eq!(whole.1, text);
            }
        }
    }
}
