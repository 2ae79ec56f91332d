use super::*;
use pretty_assertions::assert_eq;

#[test]
fn paths_with_spaces_brackets_and_unicode_are_found() {
    let text = "- a (1.0 KB)\n  Path: /mnt/user-data/uploads/my notes (final) [v2].pdf\n  Markdown: /mnt/user-data/uploads/销售 笔记.md (12 lines)\n\
                use `/mnt/user-data/uploads/q 1.csv` or read /mnt/user-data/uploads/plain.txt, all under /mnt/user-data/uploads/";
    let want = ["my notes (final) [v2].pdf", "销售 笔记.md", "q 1.csv", "plain.txt"];
    let got = paths_in(text);
    assert_eq!(got.iter().map(|path| file_name(path)).collect::<Vec<_>>(), want);
}

#[test]
fn a_companion_is_not_a_second_upload_but_a_listed_one_is() {
    let paths = || vec!["/mnt/user-data/uploads/a.pdf".to_owned(), "/mnt/user-data/uploads/a.md".to_owned()];
    assert_eq!(distinct(paths(), &BTreeSet::new()).len(), 1);
    assert_eq!(distinct(paths(), &BTreeSet::from(["a.md"])).len(), 2);
}

#[test]
fn a_truncated_read_goes_on_from_the_line_that_was_cut() {
    let mut document = Document::default();
    document.take(1, "one\ntwo\nthr\n... [truncated: showing first 11 of 40 chars. Use start_line/end_line to read a specific range] ...", false);
    assert_eq!((document.next, document.lines.len()), (Some(3), 2));
    document.take(3, "three\nfour", false);
    assert_eq!((document.next, document.cut), (None, false));
    assert_eq!(document.lines.last(), Some(&(4, "four".to_owned())));
}

#[test]
fn a_document_that_talks_of_truncation_is_not_cut() {
    assert!(!without_marker("The list was truncated by the editor.\nEnd.").1);
}
