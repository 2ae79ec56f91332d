//! Nothing panics on anything: random bytes, torn and altered files of every kind, altered XML inside intact archives.

use deerflow_documents::{ConvertError, DocumentKind, Limits, convert_bytes, decode_text, outline, page_at_line};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::{docx, fixture, zip};

const NAMES: [&str; 9] = ["a.pdf", "a.docx", "a.xlsx", "a.pptx", "a.epub", "a.html", "a.csv", "a.md", "a"];
const FIXTURES: [&str; 14] = [
    "book.epub",
    "book.xlsx",
    "deck.pptx",
    "report.docx",
    "page.html",
    "utf16.csv",
    "plain.pdf",
    "grid.pdf",
    "columns.pdf",
    "turned.pdf",
    "chinese-not-embedded.pdf",
    "half-scanned.pdf",
    "no-printing.pdf",
    "locked.docx",
];

fn limits() -> Limits {
    Limits { max_inflated_bytes: 8 << 20, ..Limits::default() }
}

/// Converts; our own readers must not panic. PDFs go through parsers that do, and are caught.
fn check(name: &str, bytes: &[u8]) -> Result<(), TestCaseError> {
    let result = convert_bytes(name, bytes, &limits());
    match result {
        Err(ConvertError::Damaged { reason }) if DocumentKind::detect(name, bytes) != DocumentKind::Pdf => {
            prop_assert!(!reason.starts_with("its reader failed"), "{name}: {reason}");
        }
        Ok(converted) => {
            let _ = (outline(&converted.markdown), page_at_line(&converted.markdown, 3));
        }
        Err(_) => {}
    }
    Ok(())
}

fn damage(bytes: &mut Vec<u8>, edits: &[(Index, u8)], cut: Option<Index>) {
    for (at, value) in edits {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len() + 1));
    }
}

/// Tags, attributes and text that mean something to the Office readers, in any order.
fn office_xml() -> impl Strategy<Value = String> {
    let token = select(vec![
        "<w:p>",
        "</w:p>",
        "<w:r>",
        "</w:r>",
        "<w:t>",
        "</w:t>",
        "text",
        "王丽",
        " ",
        "&amp;",
        "&x;",
        "&#0;",
        "<w:tbl>",
        "</w:tbl>",
        "<w:tr>",
        "</w:tr>",
        "<w:tc>",
        "</w:tc>",
        "<w:gridSpan w:val=\"99999999999\"/>",
        "<w:vMerge/>",
        "<w:pStyle w:val=\"Heading1\"/>",
        "<w:numId w:val=\"1\"/>",
        "<w:ilvl w:val=\"99999\"/>",
        "<w:b/>",
        "<w:br w:type=\"page\"/>",
        "<w:hyperlink r:id=\"r\">",
        "</w:hyperlink>",
        "<w:lastRenderedPageBreak/>",
        "<w:del>",
        "<!--",
        "<![CDATA[",
        "]]>",
        "<p:sp>",
        "</p:sp>",
        "<p:ph type=\"title\"/>",
        "<a:p>",
        "</a:p>",
        "<a:tbl>",
        "</a:tbl>",
        "<a:tr>",
        "<a:tc>",
        "</a:tc>",
        "<a:pPr lvl=\"-1\"/>",
        "<a:t>",
        "</a:t>",
        "<a:br/>",
        "<row r=\"0\">",
        "</row>",
        "<c r=\"A0\">",
        "<c r=\"ZZZZ9999999\" t=\"s\">",
        "<c r=\"B2\">",
        "</c>",
        "<v>1e308</v>",
        "<v>-1</v>",
        "<f>SUM(A1)</f>",
        "<f t=\"shared\" si=\"0\"/>",
        "<is><t>x</t></is>",
    ]);
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_under_every_name(
        name in select(&NAMES[..]), head in select(vec![&b""[..], b"%PDF-1.4\n", b"PK\x03\x04", b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", b"\xFF\xFE", b"<html>"]),
        tail in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let bytes = [head, &tail].concat();
        let _ = decode_text(&bytes);
        check(name, &bytes)?;
    }

    #[test]
    fn altered_files_of_every_kind(
        name in select(&FIXTURES[..]), edits in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..12), cut in any::<Option<Index>>(),
    ) {
        let mut bytes = fixture(name);
        damage(&mut bytes, &edits, cut);
        check(name, &bytes)?;
    }

    #[test]
    fn altered_xml_in_intact_office_files(xml in office_xml()) {
        check("a.docx", &docx(&xml))?;
        let slide = format!("<p:sld xmlns:p=\"p\" xmlns:a=\"a\">{xml}</p:sld>");
        check("a.pptx", &zip(&[
            ("ppt/presentation.xml", b"<p:presentation><p:sldId id=\"1\" r:id=\"r\"/></p:presentation>"),
            ("ppt/_rels/presentation.xml.rels", b"<Relationships><Relationship Id=\"r\" Target=\"slides/s.xml\"/></Relationships>"),
            ("ppt/slides/s.xml", slide.as_bytes()),
        ]))?;
        let sheet = format!("<worksheet><sheetData>{xml}</sheetData></worksheet>");
        check("a.xlsx", &zip(&[
            ("[Content_Types].xml", b"<Types/>"),
            ("xl/workbook.xml", b"<workbook><sheets><sheet name=\"S\" sheetId=\"1\" r:id=\"r\"/></sheets></workbook>"),
            ("xl/_rels/workbook.xml.rels", b"<Relationships><Relationship Id=\"r\" Target=\"worksheets/s.xml\"/></Relationships>"),
            ("xl/worksheets/s.xml", sheet.as_bytes()),
        ]))?;
        check("a.html", xml.as_bytes())?;
        check("a.csv", xml.as_bytes())?;
    }

    #[test]
    fn altered_operators_in_an_intact_pdf(operators in proptest::collection::vec(select(vec![
        "BT", "ET", "/F1 12 Tf", "/F1 0 Tf", "/No 1 Tf", "(text) Tj", "[(a) -2000 (b)] TJ", "(x) '", "1 2 (y) \"", "q", "Q",
        "1 0 0 1 50 50 cm", "0 0 0 0 0 0 cm", "1e30 0 0 1e30 0 0 cm", "72 700 Td", "0 -1e9 Td", "T*", "1 0 0 1 9 9 Tm", "0 1 -1 0 9 9 Tm",
        "0 0 m 500 0 l S", "0 0 500 1 re f", "-5 Tz", "99 Ts", "/X Do", "BI /W 1 ID x EI", "/CS cs", "1 g", "(torn", "<<", "]",
    ]), 0..40)) {
        let font = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";
        check("a.pdf", &crate::pdf_files::page(font, &operators.join("\n"), &[]))?;
    }

    #[test]
    fn any_text_decodes_back_from_utf8(text in "[\\PC\\n\\t]{0,400}") {
        let decoded = decode_text(text.as_bytes());
        // U+FFF0 to U+FFFB are no text; a leading mark is not part of it.
        if let Some(decoded) = decoded {
            prop_assert_eq!(decoded.text.as_str(), text.strip_prefix('\u{FEFF}').unwrap_or(&text));
            prop_assert_eq!(decoded.encoding, "UTF-8");
        }
    }
}
