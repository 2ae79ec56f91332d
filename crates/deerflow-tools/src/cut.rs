//! Cutting what is shown, and saying so.

use deerflow_core::text::head;

/// The start of `text` in at most `max` characters with the marker, cut at a line end where there is one; `None` when all of
/// it fits or `max` is 0. `marker` gets the characters and the whole lines that are shown: 0 when one line had to be cut.
pub(crate) fn head_cut(text: &str, max: usize, marker: impl Fn(usize, usize) -> String) -> Option<String> {
    let total = text.chars().count();
    if max == 0 || total <= max {
        return None;
    }
    let lines = text.lines().count();
    let longest = marker(total, lines).chars().count().max(marker(total, 0).chars().count());
    let room = max.saturating_sub(longest);
    let kept = head(text, room);
    let (kept, whole) = match kept.rfind('\n') {
        Some(end) => (&kept[..end], kept[..end].matches('\n').count() + 1),
        None => (kept, 0),
    };
    let shown = format!("{kept}{}", marker(kept.chars().count(), whole));
    // Only a marker that is itself longer than `max` is cut.
    Some(head(&shown, max).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marker(chars: usize, lines: usize) -> String {
        format!("\n[{chars}/{lines}]")
    }

    #[test]
    fn cuts_at_a_line_end_and_counts_what_is_shown() {
        assert_eq!(head_cut("abc\ndef\nghi", 11, marker), None);
        assert_eq!(head_cut("abc\ndef\nghi\n", 0, marker), None);
        assert_eq!(head_cut("abc\ndef\nghi\njkl", 14, marker).unwrap(), "abc\n[3/1]");
        assert_eq!(head_cut("界界界界界界界界界界", 9, marker).unwrap(), "界界\n[2/0]");
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(text in "[a界\n]{0,80}", max in 1usize..60) {
            if let Some(shown) = head_cut(&text, max, marker) {
                prop_assert!(shown.chars().count() <= max);
                prop_assert!(text.chars().count() > max);
            }
        }
    }
}
