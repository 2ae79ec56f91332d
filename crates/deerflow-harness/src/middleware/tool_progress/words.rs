//! Whether two results say the same.

use deerflow_core::text;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Characters of a result that are looked at.
const MAX_CHARS: usize = 8192;
/// Shorter words say little.
const MIN_WORD_CHARS: usize = 3;

/// The different words of a text, by hash and in order: a run's results are compared at every turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words(Vec<u64>);

pub(super) fn words(content: &str) -> Words {
    let lower = text::head(content, MAX_CHARS).to_lowercase();
    let long = lower
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.chars().nth(MIN_WORD_CHARS - 1).is_some());
    let hash = |word: &str| {
        let mut hasher = DefaultHasher::new();
        word.hash(&mut hasher);
        hasher.finish()
    };
    let mut hashes: Vec<u64> = long.map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    Words(hashes)
}

/// Common words over all words is at least `threshold`; never for a text with fewer than `min` words.
pub(super) fn alike(a: &Words, b: &Words, threshold: f64, min: usize) -> bool {
    let (a, b) = (&a.0, &b.0);
    if a.len() < min || b.len() < min {
        return false;
    }
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    let all = a.len() + b.len() - common;
    #[expect(clippy::cast_precision_loss, reason = "counts of at most a few thousand words")]
    let similarity = common as f64 / all as f64;
    all > 0 && similarity >= threshold
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_long_enough_and_from_the_start() {
        let text = "The the of it_1 Maß, 界界界 a-b";
        assert_eq!(words(text), words("it_1\nmaß;the 界界界"));
        assert_eq!(words(text).0.len(), 4);
        assert_eq!(words(&format!("{} tail", "x".repeat(MAX_CHARS))).0.len(), 1);
    }

    #[test]
    fn the_threshold_and_the_least_number_are_inclusive() {
        let set = |range: std::ops::Range<u32>| Words(range.map(u64::from).collect());
        assert!(alike(&set(0..10), &set(0..8), 0.8, 8));
        assert!(!alike(&set(0..10), &set(0..8), 0.81, 8));
        assert!(!alike(&set(0..10), &set(0..8), 0.8, 9));
        assert!(!alike(&Words::default(), &Words::default(), 0.0, 0));
    }

    proptest! {
        #[test]
        fn likeness_is_mutual_and_a_text_is_like_itself(a in "[a-e ]{0,80}", b in "[a-e ]{0,80}", t in 0.0f64..=1.0) {
            let (a, b) = (words(&a), words(&b));
            prop_assert_eq!(alike(&a, &b, t, 1), alike(&b, &a, t, 1));
            prop_assert_eq!(alike(&a, &a, t, 1), !a.0.is_empty());
        }
    }
}
