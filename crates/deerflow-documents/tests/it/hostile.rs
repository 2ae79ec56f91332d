//! Hostile Office files and archives: refused by what they do, not by what they declare.

use deerflow_documents::{ConvertError, Limits, convert_bytes};

use crate::{converted, docx, failure, zip};

fn small() -> Limits {
    Limits { max_inflated_bytes: 1 << 20, max_entries: 50, ..Limits::default() }
}

#[test]
fn a_word_file_with_a_giant_part_is_refused_while_inflating() {
    let body = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "a".repeat(2 << 20));
    let error = failure("a.docx", &docx(&body), &small());
    assert_eq!(error, ConvertError::Bomb { reason: "over 1 MiB".to_owned() });
    assert!(error.to_string().contains("decompression bomb"));
}

#[test]
fn a_workbook_is_measured_before_its_reader_opens_it() {
    let big = vec![b' '; 2 << 20];
    let bytes = zip(&[("xl/workbook.xml", b"<workbook/>"), ("xl/sharedStrings.xml", &big)]);
    assert!(matches!(failure("a.xlsx", &bytes, &small()), ConvertError::Bomb { .. }));
}

#[test]
fn an_entry_that_grows_a_thousandfold_is_refused_below_the_total() {
    let big = vec![b' '; 20 << 20];
    let error = failure("a.docx", &zip(&[("word/document.xml", &big)]), &Limits::default());
    assert_eq!(error, ConvertError::Bomb { reason: "an entry grows more than 300 times".to_owned() });
}

#[test]
fn many_empty_entries_are_refused_before_they_are_listed() {
    let names: Vec<String> = (0..60).map(|index| format!("word/document{index}")).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    let error = failure("a.docx", &zip(&entries), &small());
    assert_eq!(error, ConvertError::Bomb { reason: "more than 50 entries".to_owned() });
}

#[test]
fn a_workbook_with_a_cell_in_the_last_corner_stays_small() {
    let converted = converted("corners.xlsx");
    let table = "| first |  |\n| --- | --- |\n|  | last |\n";
    assert!(converted.markdown.ends_with(table), "{}", converted.markdown.len());
}

#[test]
fn own_entities_are_not_expanded() {
    let xml = "<!DOCTYPE d [<!ENTITY a \"lollollol\"><!ENTITY b \"&a;&a;&a;\">]>\
               <w:document xmlns:w=\"w\"><w:body><w:p><w:r><w:t>x&b;y &amp; z</w:t></w:r></w:p></w:body></w:document>";
    let bytes = zip(&[("word/document.xml", xml.as_bytes())]);
    let converted = convert_bytes("a.docx", &bytes, &Limits::default()).unwrap();
    assert_eq!(converted.markdown, "xy & z\n");
}

#[test]
fn xml_and_tables_nested_without_end_are_refused() {
    let tables = "<w:tbl><w:tr><w:tc>".repeat(1000);
    assert!(matches!(failure("a.docx", &docx(&tables), &Limits::default()), ConvertError::Bomb { .. }));
}

#[test]
fn archives_with_a_documents_name_and_no_document_are_damaged() {
    for name in ["a.docx", "a.xlsx", "a.pptx", "a.epub"] {
        for bytes in [zip(&[("other", b"x")]), b"PK\x03\x04 torn".to_vec(), b"\0\x01\x02".to_vec()] {
            assert!(matches!(failure(name, &bytes, &Limits::default()), ConvertError::Damaged { .. }), "{name}");
        }
    }
}

#[test]
fn a_chapter_path_cannot_leave_the_book() {
    let opf = "<package><manifest><item id=\"a\" href=\"../../../../etc/passwd\"/></manifest><spine><itemref idref=\"a\"/></spine></package>";
    let bytes = zip(&[
        ("META-INF/container.xml", b"<container><rootfile full-path=\"c.opf\"/></container>"),
        ("c.opf", opf.as_bytes()),
    ]);
    let error = failure("a.epub", &bytes, &Limits::default());
    assert_eq!(error, ConvertError::Damaged { reason: "it has no chapters".to_owned() });
}
