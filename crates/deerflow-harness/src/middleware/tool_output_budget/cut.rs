//! Start and end of a text, at line ends where that costs little.

use deerflow_core::text;

/// At most the first `max` characters, back to a line end if there is one in the second half of them.
pub(super) fn head_lines(text: &str, max: usize) -> &str {
    let head = text::head(text, max);
    let rest = &text[head.len()..];
    if rest.is_empty() || rest.starts_with('\n') {
        return head;
    }
    match head.rfind('\n') {
        Some(end) if end >= head.len() / 2 => &head[..end],
        _ => head,
    }
}

/// At most the last `max` characters, on to the start of a line if there is one in the first half of them.
pub(super) fn tail_lines(text: &str, max: usize) -> &str {
    let tail = text::tail(text, max);
    let before = &text[..text.len() - tail.len()];
    if before.is_empty() || before.ends_with('\n') {
        return tail;
    }
    match tail.find('\n') {
        Some(end) if end < tail.len() / 2 => &tail[end + 1..],
        _ => tail,
    }
}

/// At most `max` characters of a longer text: its start, a notice, its end. Without room for the notice, its start.
pub(super) fn cut_middle(text: &str, tool: &str, max: usize, head: usize, tail: usize) -> String {
    let total = text.chars().count();
    if total <= max {
        return text.to_owned();
    }
    let notice = |omitted: usize| {
        format!(
            "\n\n[... {omitted} characters of {tool} output left out: it is too long and there is no saved copy. \
             Narrow the request to see the rest.]\n\n"
        )
    };
    // No count is longer than that of all characters.
    let room = max.saturating_sub(notice(total).chars().count());
    if room == 0 {
        return text::head(text, max).to_owned();
    }
    // With too little room for both, each gives in proportion: the end is where errors stand.
    let wanted = head.saturating_add(tail);
    let share =
        |part: usize| if wanted <= room { part } else { (part as u128 * room as u128 / wanted as u128) as usize };
    let start = head_lines(text, share(head));
    let end = tail_lines(&text[start.len()..], share(tail));
    let omitted = total - start.chars().count() - end.chars().count();
    format!("{start}{}{end}", notice(omitted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn cuts_snap_to_lines_unless_that_would_cost_half() {
        let text = "one\ntwo\nthree\nfour";
        assert_eq!(head_lines(text, 10), "one\ntwo");
        assert_eq!(head_lines(text, 13), "one\ntwo\nthree");
        assert_eq!(head_lines("a\nbcdefghij", 8), "a\nbcdefg");
        assert_eq!(tail_lines(text, 7), "four");
        assert_eq!(tail_lines(text, 10), "three\nfour");
        assert_eq!(tail_lines("abcdefghi\nj", 8), "defghi\nj");
        assert_eq!((head_lines(text, 0), tail_lines(text, 0)), ("", ""));
    }

    #[test]
    fn a_small_limit_keeps_both_ends() {
        let text = format!("start\n{}\nerror: it failed\n", "x".repeat(50_000));
        let cut = cut_middle(&text, "bash", 1000, 8000, 3000);
        assert!(cut.starts_with("start\nxxx"), "{cut}");
        assert!(cut.ends_with("\nerror: it failed\n"), "{cut}");
        assert!(cut.contains("characters of bash output left out"), "{cut}");
        assert!(cut.chars().count() <= 1000);
        assert_eq!(cut_middle(&text, "bash", 20, 8000, 3000), format!("start\n{}", "x".repeat(14)));
    }

    proptest! {
        #[test]
        fn never_longer_than_asked_and_never_inside_a_character(
            text in "[a界👨\n]{0,400}", max in 0usize..500, head in 0usize..300, tail in 0usize..300,
        ) {
            let cut = cut_middle(&text, "bash", max, head, tail);
            prop_assert!(cut.chars().count() <= max);
            prop_assert_eq!(cut == text, text.chars().count() <= max);
            prop_assert!(text.starts_with(head_lines(&text, head)) && text.ends_with(tail_lines(&text, tail)));
        }
    }
}
