//! Cutting text without ever splitting a character.

/// The first `max` characters.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(at, _)| &text[..at])
}

/// The last `max` characters.
#[must_use]
pub fn tail(text: &str, max: usize) -> &str {
    let skip = text.chars().count().saturating_sub(max);
    text.char_indices().nth(skip).map_or("", |(at, _)| &text[at..])
}

/// At most `max` characters, with `…` in place of what was cut off.
#[must_use]
pub fn ellipsis(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    format!("{}…", head(text, max.saturating_sub(1)).trim_end())
}

/// At most `max` characters: start and end, with a marker that says how much is missing in the middle.
#[must_use]
pub fn middle_cut(text: &str, max: usize) -> String {
    let total = text.chars().count();
    if max == 0 || total <= max {
        return text.to_owned();
    }
    let marker = |skipped: usize| format!("\n... [middle truncated: {skipped} chars skipped] ...\n");
    let room = max.saturating_sub(marker(total).chars().count());
    if room == 0 {
        return head(text, max).to_owned();
    }
    let front = room.div_ceil(2);
    let back = room - front;
    format!("{}{}{}", head(text, front), marker(total - room), tail(text, back))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(head("a界b", 2), "a界");
        assert_eq!(tail("a界b", 2), "界b");
        assert_eq!(ellipsis("谢谢谢", 2), "谢…");
        assert_eq!(ellipsis("ab", 2), "ab");
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(text in any::<String>(), max in 0usize..120) {
            prop_assert!(head(&text, max).chars().count() <= max);
            prop_assert!(tail(&text, max).chars().count() <= max);
            if max > 0 {
                prop_assert!(middle_cut(&text, max).chars().count() <= max);
                prop_assert!(ellipsis(&text, max).chars().count() <= max);
            }
        }
    }
}
