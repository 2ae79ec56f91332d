//! Where a value sits in the file: `models[0].api_key`.

use std::fmt;

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A key of a mapping.
    Key(String),
    /// A position in a list, from 0.
    Index(usize),
}

/// A path from the root of the file (or of a section) to a value. Displays as `models[0].api_key`; a key that is not a
/// plain word is quoted: `agents."my agent"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<Segment>);

impl KeyPath {
    /// The root itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// This path, one key deeper.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.child(Segment::Key(key.into()))
    }

    /// This path, one list position deeper.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.child(Segment::Index(index))
    }

    /// The steps from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The keys along the way, list positions left out.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|segment| match segment {
            Segment::Key(key) => Some(key.as_str()),
            Segment::Index(_) => None,
        })
    }

    /// This path followed by `rest`.
    #[must_use]
    pub fn join(&self, rest: &KeyPath) -> Self {
        Self(self.0.iter().chain(&rest.0).cloned().collect())
    }

    /// Reads `title.enabled`, `models[0].api_key` or `models.0.api_key`. `None` when a step is empty or a bracket is off.
    pub fn parse(text: &str) -> Option<Self> {
        let mut segments = Vec::new();
        for (position, part) in text.split('.').enumerate() {
            let (word, mut brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
            match word {
                "" if brackets.is_empty() || position > 0 => return None,
                "" => {}
                word if !segments.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) => {
                    segments.push(Segment::Index(word.parse().ok()?));
                }
                word => segments.push(Segment::Key(word.to_owned())),
            }
            while !brackets.is_empty() {
                let (index, rest) = brackets.strip_prefix('[')?.split_once(']')?;
                segments.push(Segment::Index(index.parse().ok()?));
                brackets = rest;
            }
        }
        Some(Self(segments))
    }

    fn child(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }
}

impl From<Vec<Segment>> for KeyPath {
    fn from(segments: Vec<Segment>) -> Self {
        Self(segments)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    if !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$')) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl From<&str> for KeyPath {
    /// As [`KeyPath::parse`]; text that is not a path is taken as one key.
    fn from(text: &str) -> Self {
        if text.is_empty() { Self::root() } else { Self::parse(text).unwrap_or_else(|| Self::root().key(text)) }
    }
}
