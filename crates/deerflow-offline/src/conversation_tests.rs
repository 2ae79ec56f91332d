use super::*;
use pretty_assertions::assert_eq;

fn uploads(text: &str) -> Vec<String> {
    request_and_uploads(&Message::human(text)).1
}

#[test]
fn paths_with_spaces_brackets_and_unicode_are_found() {
    let text = "<current_uploads>\n- a (1.0 KB)\n  Path: /mnt/user-data/uploads/my notes (final) [v2].pdf\n\n- 销售 笔记.docx (2.0 KB)\n  Path: /mnt/user-data/uploads/销售 笔记.docx\n  Text version: /mnt/user-data/uploads/销售 笔记.md\n</current_uploads>\n\n\
                use `/mnt/user-data/uploads/q 1.csv`, or read /mnt/user-data/uploads/plain.txt, all under /mnt/user-data/uploads/";
    let want = ["my notes (final) [v2].pdf", "销售 笔记.docx", "q 1.csv", "plain.txt"];
    assert_eq!(uploads(text).iter().map(|path| file_name(path)).collect::<Vec<_>>(), want);
}

#[test]
fn the_request_is_what_the_person_wrote() {
    let text = "<current_uploads>\n- a\n</current_uploads>\n\n--- BEGIN USER INPUT ---\nWhy?\n--- END USER INPUT ---";
    assert_eq!(request_and_uploads(&Message::human(text)).0, "Why?");
    assert_eq!(request_and_uploads(&Message::human(" Why? ")).0, "Why?");
}

#[test]
fn a_truncated_read_goes_on_from_the_line_that_was_cut() {
    let mut document = Document::default();
    document.take(1, "one\ntwo\nthr\n... [truncated: showing first 11 of 40 chars. Use start_line/end_line to read a specific range] ...", false);
    assert_eq!((document.next, document.lines.len()), (Some(3), 2));
    document.take(3, "three\nfour\n... [truncated: showing first 10 of 99 chars, lines 3-4 of 9. Use start_line and end_line to read a range; go on with start_line=5] ...", false);
    assert_eq!((document.next, document.lines.len()), (Some(5), 4));
    document.take(5, "five\n[note: page 2 has no text]", false);
    assert_eq!((document.next, document.cut), (None, false));
    assert_eq!(document.lines[4..], [(5, "five".to_owned()), (6, "[note: page 2 has no text]".to_owned())]);
}

#[test]
fn a_document_that_talks_of_truncation_is_not_cut() {
    let mut document = Document::default();
    document.take(1, "The list was truncated by the editor.\nEnd.", false);
    assert_eq!((document.next, document.lines.len()), (None, 2));
}
