//! Puts placeholders in place of personal data. Used at the model and tool boundaries, and wherever else text of a
//! conversation goes to a model: summaries, titles, the goal's judge, labels of artifacts.

use super::detect::{Found, Kind, ORDER};
use super::{PiiRedactionConfig, RedactionKey};
use crate::middleware::remote_content::{rewrite_texts, with_text};
use deerflow_core::{Content, ContentBlock, ThreadId};
use std::borrow::Cow;
use std::path::Path;

/// Replaces e-mail addresses, API keys, identity, card and telephone numbers by `[<KIND>_<12 hex digits>]`.
///
/// The placeholder is a keyed hash of the value: the same value has the same placeholder in every request of its thread, so
/// that a provider's prefix cache holds, and nothing leads from it back to the value. Cheap to clone. The default does
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    kinds: Vec<Kind>,
    key: Option<RedactionKey>,
    #[cfg(test)]
    pub(super) broken: bool,
}

impl Redactor {
    /// What the configuration wants, with the installation's key; nothing at all unless it is enabled. Take
    /// [`Self::for_thread`] of it before use.
    #[must_use]
    pub fn new(config: &PiiRedactionConfig, key: &RedactionKey) -> Self {
        let key = match &config.token_secret {
            Some(secret) => RedactionKey::from_secret(secret.expose()),
            None => *key,
        };
        let kinds = ORDER.into_iter().filter(|kind| config.enabled && kind.is_on(config)).collect();
        Self {
            kinds,
            key: Some(key),
            #[cfg(test)]
            broken: false,
        }
    }

    /// The same with the key in the data folder `home`, which is made if need be. Reads nothing unless it is needed. If there is
    /// no such key, one for this process is used: placeholders differ after the next start, and nothing else does.
    #[must_use]
    pub fn of_installation(config: &PiiRedactionConfig, home: &Path) -> Self {
        if !config.enabled {
            return Self::off();
        }
        if config.token_secret.is_some() {
            return Self::new(config, &RedactionKey::random());
        }
        let key = RedactionKey::of_installation(home).unwrap_or_else(|error| {
            tracing::warn!(%error, "the key of placeholders cannot be kept; they will differ after the next start");
            RedactionKey::random()
        });
        Self::new(config, &key)
    }

    /// Leaves every text as it is.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// Whether it replaces anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The redactor of one thread; see [`RedactionKey::for_thread`].
    #[must_use]
    pub fn for_thread(&self, thread: &ThreadId) -> Self {
        Self { key: self.key.map(|key| key.for_thread(thread)), ..self.clone() }
    }

    /// The text with placeholders. A second pass changes nothing.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        #[cfg(test)]
        assert!(!self.broken, "a broken detector");
        let mut redacted = Cow::Borrowed(text);
        // A replacement can uncover a value that was a part of something longer. Each round takes some away, so there is an
        // end, and nearly always the second one finds nothing.
        while let Some(next) = self.pass(&redacted) {
            redacted = Cow::Owned(next);
        }
        redacted
    }

    /// The content with placeholders, `None` when it stays as it is. A value that goes on in the next text block is found as
    /// well; its placeholder stands where it began.
    #[must_use]
    pub fn redact_content(&self, content: &Content) -> Option<Content> {
        let each = rewrite_texts(content, |text| match self.redact(text) {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        });
        let joined = match each.as_ref().unwrap_or(content) {
            Content::Blocks(blocks) => self.redact_across(blocks).map(Content::Blocks),
            Content::Text(_) => None,
        };
        joined.or(each)
    }

    /// For a message whose text blocks `blocks` were joined by line breaks: what to replace in the joined text, the values
    /// that went on from one block to the next.
    pub(super) fn torn(&self, blocks: &[ContentBlock]) -> Vec<(String, String)> {
        let mut torn = Vec::new();
        for stretch in stretches(blocks) {
            let texts: Vec<&str> = stretch.iter().map(|at| blocks[*at].text().unwrap_or_default()).collect();
            for (found, ends) in self.across(&texts) {
                let mut pieces = Vec::new();
                let mut from = found.range.start;
                let whole = texts.concat();
                for end in ends.into_iter().filter(|end| found.range.start < *end && *end < found.range.end) {
                    pieces.push(&whole[from..end]);
                    from = end;
                }
                pieces.push(&whole[from..found.range.end]);
                torn.push((pieces.join("\n"), self.placeholder(&found)));
            }
        }
        torn
    }

    /// Blocks with the values replaced that go on from one to the next; `None` when there is none.
    fn redact_across(&self, blocks: &[ContentBlock]) -> Option<Vec<ContentBlock>> {
        let mut blocks = blocks.to_vec();
        let mut changed = false;
        for stretch in stretches(&blocks) {
            loop {
                let texts: Vec<&str> = stretch.iter().map(|at| blocks[*at].text().unwrap_or_default()).collect();
                let Some((found, ends)) = self.across(&texts).into_iter().next() else { break };
                let mut start = 0;
                let mut rewritten = Vec::with_capacity(texts.len());
                for (text, end) in texts.iter().zip(ends) {
                    let from = found.range.start.clamp(start, end) - start;
                    let to = found.range.end.clamp(start, end) - start;
                    let begins = (start..end).contains(&found.range.start);
                    let placeholder = if begins { self.placeholder(&found) } else { String::new() };
                    rewritten.push(format!("{}{placeholder}{}", &text[..from], &text[to..]));
                    start = end;
                }
                for (at, text) in stretch.iter().zip(rewritten) {
                    blocks[*at] = with_text(&blocks[*at], text);
                }
                changed = true;
            }
        }
        changed.then_some(blocks)
    }

    /// Values in the texts put together that are in more than one of them, with the ends of the texts.
    fn across(&self, texts: &[&str]) -> Vec<(Found, Vec<usize>)> {
        if texts.len() < 2 {
            return Vec::new();
        }
        let whole = texts.concat();
        let ends: Vec<usize> = texts
            .iter()
            .scan(0, |end, text| {
                *end += text.len();
                Some(*end)
            })
            .collect();
        let crosses = |found: &Found| ends.iter().any(|end| found.range.start < *end && *end < found.range.end);
        self.kinds
            .iter()
            .flat_map(|kind| kind.find(&whole))
            .filter(crosses)
            .map(|found| (found, ends.clone()))
            .collect()
    }

    /// One look by every kind in turn; `None` when nothing was found.
    fn pass(&self, text: &str) -> Option<String> {
        let mut current = Cow::Borrowed(text);
        for kind in &self.kinds {
            let found = kind.find(&current);
            if found.is_empty() {
                continue;
            }
            let mut next = String::with_capacity(current.len());
            let mut from = 0;
            for one in &found {
                next.push_str(&current[from..one.range.start]);
                next.push_str(&self.placeholder(one));
                from = one.range.end;
            }
            next.push_str(&current[from..]);
            current = Cow::Owned(next);
        }
        match current {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        }
    }

    fn placeholder(&self, found: &Found) -> String {
        let label = found.kind.label();
        // Without a key there are no kinds and nothing is found.
        let tag = self.key.map(|key| key.tag(label, &found.value)).unwrap_or_default();
        format!("[{label}_{tag}]")
    }
}

/// Positions of text blocks that follow each other directly.
fn stretches(blocks: &[ContentBlock]) -> Vec<Vec<usize>> {
    let mut stretches: Vec<Vec<usize>> = Vec::new();
    let mut open = false;
    for (at, block) in blocks.iter().enumerate() {
        if block.text().is_none() {
            open = false;
        } else if open && let Some(last) = stretches.last_mut() {
            last.push(at);
        } else {
            stretches.push(vec![at]);
            open = true;
        }
    }
    stretches.retain(|stretch| stretch.len() > 1);
    stretches
}
