use super::{Loaded, show};
use crate::testing::Desk;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Write;

const W: &str = "/mnt/user-data/workspace";

async fn read(desk: &Desk, name: &str, more: Value) -> String {
    let mut args = json!({"description": "t", "path": format!("{W}/{name}")});
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.ok("read_file", args).await
}

async fn refuse(desk: &Desk, name: &str) -> String {
    desk.fail("read_file", json!({"path": format!("{W}/{name}")})).await
}

#[tokio::test]
async fn br_138_one_sided_ranges_work_and_impossible_ones_give_a_message() {
    let desk = Desk::new();
    desk.file("workspace/a", "1\n2\n3\n4\n");
    let range = async |start: Value, end: Value| read(&desk, "a", json!({"start_line": start, "end_line": end})).await;
    assert_eq!(range(json!(null), json!(null)).await, "1\n2\n3\n4\n");
    assert_eq!(range(json!(3), json!(null)).await, "3\n4");
    assert_eq!(range(json!(null), json!("2")).await, "1\n2");
    assert_eq!(range(json!(2), json!(2)).await, "2");
    assert_eq!(range(json!(4), json!(99)).await, "4");
    assert_eq!(range(json!(5), json!(null)).await, "(start_line exceeds file length)");
    assert_eq!(range(json!(0), json!(null)).await, "(start_line must be >= 1)");
    assert_eq!(range(json!(-3), json!(-1)).await, "(start_line must be >= 1)");
    assert_eq!(range(json!(null), json!(0)).await, "(end_line must be >= 1)");
    assert_eq!(range(json!(3), json!(2)).await, "(start_line 3 is greater than end_line 2; nothing to read)");
    desk.file("workspace/empty", "");
    assert_eq!(read(&desk, "empty", json!({"start_line": 5})).await, "(empty)");
}

#[tokio::test]
async fn a_long_file_is_cut_at_a_line_with_what_is_missing_and_where_to_go_on() {
    let desk = Desk::with(|limits| limits.read_file_output_max_chars = 300);
    let text: String = (1..=100).map(|n| format!("line {n:03}\n")).collect();
    desk.file("workspace/a", &text);
    let shown = read(&desk, "a", json!({})).await;
    assert!(shown.chars().count() <= 300);
    assert!(shown.starts_with("line 001\nline 002\n"));
    let marker = shown.split_once("\n... ").unwrap().1;
    assert_eq!(
        marker,
        "[truncated: showing first 152 of 900 chars, lines 1-17 of 100. Use start_line and end_line to read a range; go on with \
         start_line=18] ..."
    );
    let next = read(&desk, "a", json!({"start_line": 18})).await;
    assert!(next.starts_with("line 018\n") && next.contains("lines 18-"), "{next}");
    desk.file("workspace/long", "界".repeat(1000));
    let shown = read(&desk, "long", json!({})).await;
    assert!(shown.chars().count() <= 300 && shown.contains("line 1 is cut: it is too long to show"), "{shown}");
}

#[tokio::test]
async fn br_116_text_of_any_encoding_is_read() {
    let desk = Desk::new();
    let utf16: Vec<u8> = "\u{feff}größe\r\nzwei\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    desk.file("workspace/u16.txt", utf16);
    desk.file("workspace/bom.yaml", "\u{feff}a: 1\r\n");
    let gbk = b"\xcf\xfa\xca\xdb\xcf\xc2\xbd\xb5\xb5\xc4\xd4\xad\xd2\xf2\xa3\xba\xbc\xdb\xb8\xf1\xc9\xcf\xd5\xc7\n";
    desk.file("workspace/gbk.txt", gbk);
    assert_eq!(read(&desk, "u16.txt", json!({})).await, "größe\nzwei\n");
    assert_eq!(read(&desk, "bom.yaml", json!({})).await, "a: 1\n");
    assert_eq!(read(&desk, "gbk.txt", json!({})).await, "销售下降的原因：价格上涨\n");
}

#[tokio::test]
async fn what_cannot_be_read_says_what_to_do() {
    let desk = Desk::new();
    desk.file("workspace/report.md", "x");
    desk.file("workspace/a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0");
    desk.file("workspace/a.bin", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
    desk.file("workspace/a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\0");
    desk.file("workspace/dir/x", "x");
    assert_eq!(refuse(&desk, "none").await, format!("File not found: {W}/none"));
    assert_eq!(
        refuse(&desk, "report.txt").await,
        format!("File not found: {W}/report.txt; similar names there: report.md")
    );
    assert_eq!(refuse(&desk, "dir").await, format!("Path is a directory, not a file: {W}/dir"));
    assert!(refuse(&desk, "a.png").await.ends_with("it is an image (20 bytes); look at it with view_image"));
    assert!(refuse(&desk, "a.bin").await.contains("as text: it is a binary file (unknown type, 20 bytes); inspect it"));
    assert!(refuse(&desk, "a.gz").await.contains("it is an archive"));
    assert!(refuse(&desk, "../../x").await.starts_with("Access denied: path traversal detected"));
}

#[tokio::test]
async fn br_103_a_link_out_of_the_sandbox_is_refused() {
    let desk = Desk::new();
    std::os::unix::fs::symlink("/etc/hostname", desk.host("workspace/notes.txt")).unwrap();
    assert!(refuse(&desk, "notes.txt").await.starts_with("Permission denied: "));
}

#[tokio::test]
async fn web_pages_are_shown_as_source_so_that_edits_match() {
    let desk = Desk::new();
    desk.file(
        "uploads/page.html",
        "<html><head><style>b{}</style></head><body><h1>Hi</h1><p>There</p></body></html>\n",
    );
    let page = desk.call("read_file", json!({"path": "/mnt/user-data/uploads/page.html"})).await.unwrap();
    let page = page.content.text().into_owned();
    assert!(page.contains("# Hi") && page.contains("There") && !page.contains("style"), "{page}");
    desk.file("workspace/index.html", "<html><body><h1>Hi</h1></body></html>\n");
    assert_eq!(read(&desk, "index.html", json!({})).await, "<html><body><h1>Hi</h1></body></html>\n");
}

/// A PDF with one page a text, by hand.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    for (page, text) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * page
        ));
        let stream = format!("BT /F1 12 Tf 20 100 Td ({text}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
    }
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        write!(out, "{} 0 obj\n{object}\nendobj\n", index + 1).unwrap();
    }
    let start = out.len();
    write!(out, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in offsets {
        writeln!(out, "{offset:010} 00000 n ").unwrap();
    }
    write!(out, "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1).unwrap();
    out
}

fn docx(body: &str) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>";
    for (name, content) in [
        (
            "[Content_Types].xml",
            "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\"><Default Extension=\"rels\" \
             ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/><Default Extension=\"xml\" \
             ContentType=\"application/xml\"/><Override PartName=\"/word/document.xml\" ContentType=\
             \"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/></Types>"
                .to_owned(),
        ),
        (
            "_rels/.rels",
            "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"rId1\" \
             Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
             Target=\"word/document.xml\"/></Relationships>"
                .to_owned(),
        ),
        (
            "word/document.xml",
            format!(
                "<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body>{body}</w:body>\
                 </w:document>"
            ),
        ),
    ] {
        zip.start_file(name, options).unwrap();
        write!(zip, "{head}{content}").unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[tokio::test]
async fn a_pdf_is_text_with_page_marks_and_ranges_count_its_lines() {
    let desk = Desk::new();
    desk.file("workspace/a.pdf", pdf(&["First page words", "Second page words"]));
    let text = read(&desk, "a.pdf", json!({})).await;
    assert!(text.starts_with("<!-- page 1 -->\n"), "{text}");
    assert!(
        text.contains("First page words") && text.contains("<!-- page 2 -->") && text.contains("Second page words")
    );
    assert_eq!(read(&desk, "a.pdf", json!({"start_line": 1, "end_line": 1})).await, "<!-- page 1 -->");
    // By its bytes, whatever its name.
    desk.file("workspace/a.txt", pdf(&["Other name words"]));
    assert!(read(&desk, "a.txt", json!({})).await.contains("Other name words"));
}

#[tokio::test]
async fn a_word_document_is_text_and_a_changed_one_is_read_anew() {
    let desk = Desk::new();
    let paragraph = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    desk.file("workspace/a.docx", docx(&paragraph("One thing")));
    assert_eq!(read(&desk, "a.docx", json!({})).await.trim(), "One thing");
    desk.file("workspace/a.docx", docx(&paragraph("Another thing")));
    assert_eq!(read(&desk, "a.docx", json!({})).await.trim(), "Another thing");
    desk.file("workspace/broken.docx", b"PK\x03\x04 not a zip");
    assert!(refuse(&desk, "broken.docx").await.starts_with(&format!("Cannot read {W}/broken.docx as text: ")));
}

proptest! {
    #[test]
    fn any_range_of_any_text_keeps_the_limit_and_shows_only_lines_of_the_range(
        text in "[a界\n\r]{0,120}", start in 1i64..30, length in 0i64..30, max in 1usize..400
    ) {
        let loaded = Loaded { text: text.clone(), notes: Vec::new() };
        let shown = show(&loaded, Some(start), Some(start + length), max);
        if !shown.starts_with('(') {
            prop_assert!(shown.chars().count() <= max);
        }
        let whole = show(&loaded, Some(start), Some(start + length), 0);
        if !whole.starts_with('(') {
            let wanted: Vec<&str> = text.lines().skip(start as usize - 1).take(length as usize + 1).collect();
            prop_assert_eq!(whole, wanted.join("\n"));
        }
    }
}
