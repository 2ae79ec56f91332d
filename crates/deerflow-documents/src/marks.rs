//! Page marks: lines that are invisible in rendered Markdown and plain to a reader of the source.

/// The line that opens page `number` (counted from 1): `<!-- page 3 -->`. A slide counts as a page.
#[must_use]
pub fn page_mark(number: u32) -> String {
    format!("<!-- page {number} -->")
}

/// The page that line `line` (counted from 1) of a converted document is on, or `None` above the first mark, past the
/// end, and in documents without pages.
#[must_use]
pub fn page_at_line(markdown: &str, line: usize) -> Option<u32> {
    let mut page = None;
    for (index, text) in markdown.lines().enumerate() {
        if index >= line {
            return page;
        }
        page = parse_page_mark(text).or(page);
    }
    if markdown.lines().count() >= line { page } else { None }
}

fn parse_page_mark(line: &str) -> Option<u32> {
    line.trim().strip_prefix("<!-- page ")?.strip_suffix(" -->")?.parse().ok()
}

/// Whether the line is one of the marks this crate writes (page, sheet, chapter).
pub(crate) fn is_mark(line: &str) -> bool {
    let line = line.trim();
    line.ends_with("-->") && ["<!-- page ", "<!-- sheet ", "<!-- chapter "].iter().any(|mark| line.starts_with(mark))
}

/// `<!-- sheet NAME -->` with nothing in the name that could end the comment.
pub(crate) fn sheet_mark(name: &str) -> String {
    format!("<!-- sheet {} -->", name.replace("--", "- -").replace(['\n', '\r'], " "))
}

/// `<!-- chapter N -->`: a document of a book, in reading order.
pub(crate) fn chapter_mark(number: usize) -> String {
    format!("<!-- chapter {number} -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_on_the_page_of_the_last_mark_above_it() {
        let text = format!("intro\n{}\nfirst\nalso first\n\n{}\nsecond", page_mark(1), page_mark(2));
        let pages: Vec<_> = (1..=8).map(|line| page_at_line(&text, line)).collect();
        assert_eq!(pages, [None, Some(1), Some(1), Some(1), Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn text_that_looks_like_a_mark_inside_a_line_is_no_mark() {
        assert_eq!(page_at_line("see <!-- page 3 -->\nx", 2), None);
        assert_eq!(page_at_line("<!-- page x -->\nx", 2), None);
    }

    #[test]
    fn a_sheet_name_cannot_end_the_comment() {
        assert_eq!(sheet_mark("a-->b"), "<!-- sheet a- ->b -->");
    }
}
