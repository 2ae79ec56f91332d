//! PDFs written by hand, for what no generator would write.

use deerflow_documents::{ConvertError, Limits, convert_bytes};
use pretty_assertions::assert_eq;

use crate::failure;

/// A PDF of the given objects, numbered from 1; the first is the catalog.
pub(crate) fn pdf(objects: &[String]) -> Vec<u8> {
    let mut out = b"%PDF-1.5\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", index + 1).as_bytes());
    }
    let start = out.len();
    out.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes());
    for offset in offsets {
        out.extend_from_slice(format!("{offset:010} 00000 n \n").as_bytes());
    }
    let trailer = format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1);
    out.extend_from_slice(trailer.as_bytes());
    out
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// One page with `resources` and `content`; more objects follow from number 5.
pub(crate) fn page(resources: &str, content: &str, more: &[String]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << {resources} >> >>"),
        stream("", content),
    ];
    objects.extend_from_slice(more);
    pdf(&objects)
}

const HELVETICA: &str = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";

fn text(bytes: &[u8]) -> String {
    convert_bytes("a.pdf", bytes, &Limits::default()).expect("converts").markdown
}

#[test]
fn an_identity_font_that_is_not_embedded_is_read_through_its_unicode_map() {
    let map = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n1 begincodespacerange\n<0000> <FFFF>\n\
               endcodespacerange\n3 beginbfchar\n<0001> <738B>\n<0002> <4E3D>\n<0003> <00660069>\nendbfchar\nendcmap end end";
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /Identity-H /DescendantFonts [6 0 R] /ToUnicode 7 0 R >>";
    let descendant = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Song /DW 500 /W [1 3 1000] \
                      /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor 8 0 R >>";
    let bytes = page(
        "/Font << /F1 5 0 R >>",
        "BT /F1 10 Tf 72 700 Td <00010002> Tj 0 -14 Td <00030001> Tj ET",
        &[
            font.into(),
            descendant.into(),
            stream("", map),
            "<< /Type /FontDescriptor /FontName /Song /Flags 4 >>".into(),
        ],
    );
    assert_eq!(text(&bytes), "<!-- page 1 -->\n\n王丽\nfi王\n");
}

#[test]
fn the_show_on_next_line_operators_are_text_too() {
    let content = "BT /F1 10 Tf 12 TL 72 700 Td (first) Tj (second) ' 0 0 (third) \" ET";
    assert_eq!(text(&page(HELVETICA, content, &[])), "<!-- page 1 -->\n\nfirst\nsecond\nthird\n");
}

#[test]
fn text_before_any_font_and_missing_resources_cost_nothing_else() {
    let content =
        "BT (lost) Tj /Nope 10 Tf (lost) Tj /F1 10 Tf 72 700 Td (kept) Tj ET /Gone gs /Gone Do /Gone cs 1 2 cm (x) w";
    assert_eq!(text(&page(HELVETICA, content, &[])), "<!-- page 1 -->\n\nkept\n");
}

#[test]
fn a_file_cannot_forge_page_marks_or_headings() {
    let content = "BT /F1 10 Tf 72 700 Td (<!-- page 99 -->) Tj 0 -12 Td (# no heading) Tj ET";
    assert_eq!(text(&page(HELVETICA, content, &[])), "<!-- page 1 -->\n\n&lt;!-- page 99 -->\n\\# no heading\n");
}

#[test]
fn a_form_that_draws_itself_ends() {
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /XObject << /X 5 0 R >> >>",
        "/X Do BT 20 700 Td (in the form) Tj ET /X Do",
    );
    let resources = format!("{HELVETICA} /XObject << /X 5 0 R >>");
    assert_eq!(text(&page(&resources, "BT /F1 10 Tf ET /X Do", &[form])), "<!-- page 1 -->\n\nin the form\n");
}

#[test]
fn forms_that_multiply_without_end_are_given_up() {
    let calls = "/X Do ".repeat(30);
    let level = |next: usize| {
        let head =
            format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {next} 0 R >> >>");
        stream(&head, &calls)
    };
    let mut forms: Vec<String> = (0..10).map(|index| level(6 + index)).collect();
    forms.push(stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", "0 0 m 9 9 l S"));
    let bytes = page("/XObject << /X 5 0 R >>", "/X Do", &forms);
    assert_eq!(failure("a.pdf", &bytes, &Limits::default()), ConvertError::NoTextLayer { pages: 1 });
}

#[test]
fn a_page_tree_that_is_a_circle_ends() {
    let bytes = pdf(&[
        "<< /Type /Catalog /Pages 2 0 R >>".into(),
        "<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 2 /Parent 2 0 R >>".into(),
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".into(),
        stream("", "BT /F1 10 Tf (x) Tj ET"),
    ]);
    let error = failure("a.pdf", &bytes, &Limits::default());
    assert!(matches!(error, ConvertError::NoTextLayer { .. } | ConvertError::Damaged { .. }), "{error:?}");
}

#[test]
fn half_a_pdf_is_damaged_not_empty() {
    let whole = crate::fixture("plain.pdf");
    let error = failure("a.pdf", &whole[..whole.len() / 2], &Limits::default());
    assert!(matches!(error, ConvertError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("save it again"), "{error}");
}

#[test]
fn a_stream_that_inflates_past_the_limit_is_a_bomb() {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![b' '; 3 << 20]).unwrap();
    let packed = encoder.finish().unwrap();
    let limits = Limits { max_inflated_bytes: 1 << 20, ..Limits::default() };
    for kind in ["", "/Type /ObjStm /N 1 /First 4"] {
        let mut bytes = page(HELVETICA, "", &[]);
        let tail = bytes.len();
        bytes.extend_from_slice(
            format!("9 0 obj\n<< {kind} /Filter /FlateDecode /Length {} >>\nstream\n", packed.len()).as_bytes(),
        );
        bytes.extend_from_slice(&packed);
        bytes.extend_from_slice(b"\nendstream\nendobj\n");
        let start = bytes.len();
        let update = format!(
            "xref\n9 1\n{tail:010} 00000 n \ntrailer\n<< /Size 10 /Root 1 0 R /Prev {} >>\nstartxref\n{start}\n%%EOF\n",
            previous_xref(&bytes)
        );
        bytes.extend_from_slice(update.as_bytes());
        assert!(matches!(failure("a.pdf", &bytes, &limits), ConvertError::Bomb { .. }), "{kind}");
    }
}

fn previous_xref(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(&bytes[..2000.min(bytes.len())]).into_owned();
    text.find("xref\n").expect("a table")
}
