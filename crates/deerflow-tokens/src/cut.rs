//! Cutting a text to a number of tokens.

use crate::Scanner;
use unicode_segmentation::UnicodeSegmentation as _;

/// The longest start of `text` that is estimated at no more than `max_tokens`, cut between what people see as characters: a
/// family emoji or a letter with its accents is never split.
#[must_use]
pub fn cut_graphemes(text: &str, max_tokens: u64) -> &str {
    let mut scanner = Scanner::default();
    let mut end = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        scanner.push_str(grapheme);
        if scanner.tokens() > max_tokens {
            return &text[..end];
        }
        end = at + grapheme.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_tokens;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn joined_emoji_and_combining_marks_stay_whole() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let text = format!("a {family} e\u{301}");
        for max in 0..20 {
            let cut = cut_graphemes(&text, max);
            assert!(["", "a", "a ", &format!("a {family}"), &format!("a {family} "), &text].contains(&cut), "{cut:?}");
        }
        assert_eq!(cut_graphemes("你好世界", 2), "你好");
        assert_eq!(cut_graphemes("short", 100), "short");
    }

    proptest! {
        #[test]
        fn fits_is_a_prefix_and_is_the_longest(text in any::<String>(), max in 0u64..50) {
            let cut = cut_graphemes(&text, max);
            prop_assert!(text.starts_with(cut));
            prop_assert!(text_tokens(cut) <= max);
            if let Some(next) = text[cut.len()..].graphemes(true).next() {
                let longer = format!("{cut}{next}");
                prop_assert!(text_tokens(&longer) > max);
            }
        }
    }
}
