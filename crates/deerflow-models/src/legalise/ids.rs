//! Call ids and tool names that every provider takes.

use super::IdRule;
use std::borrow::Cow;
use std::collections::HashSet;

/// The name of a call that came without one.
pub(crate) const UNKNOWN_TOOL: &str = "unknown_tool";
const MAX_NAME: usize = 64;

impl IdRule {
    /// Whether `id` has the wanted shape.
    pub(crate) fn accepts(self, id: &str) -> bool {
        match self {
            Self::Any => !id.is_empty(),
            Self::Safe { max } => (1..=max).contains(&id.len()) && id.bytes().all(is_safe),
            Self::Exactly(length) => id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }

    /// An id of the wanted shape, the same for the same seed.
    fn derive(self, seed: &str) -> String {
        let hash = blake3::hash(seed.as_bytes()).to_hex();
        match self {
            Self::Exactly(length) => hash.chars().cycle().take(length).collect(),
            _ => format!("call_{}", deerflow_core::text::head(&hash, 24)),
        }
    }
}

/// Gives out ids that are unique within one request. The same history always gets the same ids, so that the prefix of a
/// longer one stays what it was.
pub(crate) struct IdBook {
    rule: IdRule,
    used: HashSet<String>,
}

impl IdBook {
    pub(crate) fn new(rule: IdRule) -> Self {
        Self { rule, used: HashSet::new() }
    }

    /// The id to send for `wanted`; `place` says where the call stands, for calls without id.
    pub(crate) fn take(&mut self, wanted: &str, place: &str) -> String {
        let mut id = if self.rule.accepts(wanted) {
            wanted.to_owned()
        } else if wanted.is_empty() {
            self.rule.derive(place)
        } else {
            self.rule.derive(wanted)
        };
        let mut round = 2_u32;
        while self.used.contains(&id) {
            id = self.rule.derive(&format!("{wanted}#{round}"));
            round += 1;
        }
        self.used.insert(id.clone());
        id
    }
}

fn is_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A tool name that every provider takes: 1 to 64 of `[A-Za-z0-9_-]`.
pub(crate) fn safe_name(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if name.is_empty() {
        return Cow::Borrowed(UNKNOWN_TOOL);
    }
    if name.len() <= MAX_NAME && name.bytes().all(is_safe) {
        return Cow::Borrowed(name);
    }
    let kept = |c: char| if c.is_ascii() && is_safe(c as u8) { c } else { '_' };
    Cow::Owned(name.chars().take(MAX_NAME).map(kept).collect())
}
