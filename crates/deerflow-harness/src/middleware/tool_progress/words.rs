//! Whether two results say the same.

use deerflow_core::text;
use std::collections::BTreeSet;

/// Characters of a result that are looked at.
const MAX_CHARS: usize = 8192;
/// Shorter words say little.
const MIN_WORD_CHARS: usize = 3;

/// The different words of a text.
pub(super) type Words = BTreeSet<String>;

pub(super) fn words(content: &str) -> Words {
    text::head(content, MAX_CHARS)
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.chars().nth(MIN_WORD_CHARS - 1).is_some())
        .map(str::to_owned)
        .collect()
}

/// Common words over all words is at least `threshold`; never for a text with fewer than `min` words.
pub(super) fn alike(a: &Words, b: &Words, threshold: f64, min: usize) -> bool {
    if a.len() < min || b.len() < min {
        return false;
    }
    let common = a.intersection(b).count();
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
        assert_eq!(
            words("The the of it_1 Maß, 界界界 a-b"),
            ["it_1", "maß", "the", "界界界"].map(str::to_owned).into()
        );
        assert_eq!(words(&format!("{} tail", "x".repeat(MAX_CHARS))).len(), 1);
    }

    #[test]
    fn the_threshold_and_the_least_number_are_inclusive() {
        let set = |range: std::ops::Range<u32>| range.map(|n| n.to_string()).collect::<Words>();
        assert!(alike(&set(0..10), &set(0..8), 0.8, 8));
        assert!(!alike(&set(0..10), &set(0..8), 0.81, 8));
        assert!(!alike(&set(0..10), &set(0..8), 0.8, 9));
        assert!(!alike(&Words::new(), &Words::new(), 0.0, 0));
    }

    proptest! {
        #[test]
        fn likeness_is_mutual_and_a_text_is_like_itself(a in "[a-e ]{0,80}", b in "[a-e ]{0,80}", t in 0.0f64..=1.0) {
            let (a, b) = (words(&a), words(&b));
            prop_assert_eq!(alike(&a, &b, t, 1), alike(&b, &a, t, 1));
            prop_assert_eq!(alike(&a, &a, t, 1), !a.is_empty());
        }
    }
}
