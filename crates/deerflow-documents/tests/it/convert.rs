//! One test per kind, with the whole text.

use std::time::Duration;

use deerflow_documents::{ConvertError, DocumentKind, Limits, convert_bytes, outline, page_at_line};
use pretty_assertions::assert_eq;

use crate::{converted, failure, fixture};

#[test]
fn word_keeps_headings_style_based_lists_tables_links_and_pages() {
    let converted = converted("report.docx");
    assert_eq!(
        converted.markdown,
        "<!-- page 1 -->\n\n# Quarterly review\n\n# Causes\n\nSales fell by **12 %** in *北京* & Köln.\n\n\
         - price\n- stock\n   - nested\n1. first\n2. second\n\n> They left.\n\nSee [the plan](https://example.org/a)\n\n\
         | Region | Units | Note |\n| --- | --- | --- |\n| North | 12\\|000 | a<br>b |\n| Total |  | x |\n\n\
         <!-- page 2 -->\n\n## Second page\n\nkept\n"
    );
    assert_eq!((converted.kind, converted.pages), (DocumentKind::Docx, Some(2)));
    assert_eq!(converted.title.as_deref(), Some("Quarterly review"));
    assert_eq!(converted.warnings, ["1 image(s) in the document are not part of the text"]);
}

#[test]
fn excel_writes_a_table_per_sheet_with_dates_and_uncomputed_formulas() {
    let converted = converted("book.xlsx");
    assert_eq!(
        converted.markdown,
        "<!-- sheet Sales 2025 -->\n\n## Sales 2025\n\n| Day | Region | Units | Rate | Sum |\n\
         | --- | --- | --- | --- | --- |\n| 2025-07-01 | 北京 | 1200 | 0.3 | =C2*2 |\n\
         | 2025-07-02 09:30 | Köln\\|West | 980 | 12.5 | TRUE |\n\n\
         <!-- sheet Notes -->\n\n## Notes\n\n| offset |  |\n| --- | --- |\n|  | cell |\n\n\
         <!-- sheet Old -->\n\n## Old (hidden)\n\n| hidden value |\n| --- |\n"
    );
    assert_eq!(converted.warnings, Vec::<String>::new());
}

#[test]
fn powerpoint_marks_slides_as_pages_and_keeps_notes_and_tables() {
    let converted = converted("deck.pptx");
    assert_eq!(
        converted.markdown,
        "<!-- page 1 -->\n\n# Why sales fell\n\n- Price\n   - plus 8 %\n\nNotes: Say it slowly. 王丽\n\n\
         <!-- page 2 -->\n\n# Numbers\n\n| Region | Units |\n| --- | --- |\n| North | 12,700 |\n"
    );
    assert_eq!((converted.pages, converted.title.as_deref()), (Some(2), Some("Why sales fell")));
}

#[test]
fn an_ebook_is_read_in_the_order_of_its_spine() {
    let converted = converted("book.epub");
    assert_eq!(
        converted.markdown,
        "<!-- chapter 1 -->\n\n# One\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n<!-- chapter 2 -->\n\n# Two\n\n王丽 & Tomás\n"
    );
    assert_eq!((converted.kind, converted.title.as_deref()), (DocumentKind::Epub, Some("A short book")));
}

#[test]
fn a_web_page_in_its_declared_encoding_loses_scripts_and_keeps_tables() {
    let converted = converted("page.html");
    assert_eq!(
        converted.markdown,
        "# 销售报告\n\n| 地区 | 销量 |\n| --- | --- |\n| 华北 | 1200 |\n\n见 [附件](https://example.org)。\n"
    );
    assert_eq!(converted.title.as_deref(), Some("销售报告"));
}

#[test]
fn csv_in_four_encodings_is_the_same_kind_of_table() {
    let chinese = "| 地区 | 销量 | 说明 |\n| --- | --- | --- |\n| 华北 | 1200 | 价格上涨, 客户流失 |\n| 华东 | 980 | 王丽负责的渠道断货 |\n";
    assert_eq!(converted("gb18030.csv").markdown, chinese);
    assert_eq!(converted("utf16.csv").markdown, chinese);
    assert!(converted("shift-jis.csv").markdown.contains("| 東京 | 1200 | 値上げの影響です |"));
    assert!(converted("windows-1252.csv").markdown.contains("| Köln | 980 | für später |"));
}

#[test]
fn a_pdf_with_two_columns_is_read_column_by_column() {
    let markdown = converted("columns.pdf").markdown;
    assert!(markdown.starts_with("<!-- page 1 -->\n\n# A heading over both of the columns\n\nL0 begins"), "{markdown}");
    let order: Vec<usize> = ["L0stop", "L3stop", "L5stop", "R0stop", "R5stop"]
        .iter()
        .map(|word| markdown.find(word).expect(word))
        .collect();
    assert!(order.is_sorted(), "{order:?}\n{markdown}");
}

#[test]
fn a_ruled_pdf_table_with_wrapped_cells_keeps_its_rows() {
    assert_eq!(
        converted("grid.pdf").markdown,
        "<!-- page 1 -->\n\nBefore the grid.\n\n| Cause | Detail | Units |\n| --- | --- | --- |\n\
         | Price | raised by eight percent on the first of July without telling the dealers | -2,000 |\n\
         | Stock-out in the central warehouse | 23 days | -1,900 |\n| Launch |  | -2,600 |\n\nAfter the grid.\n"
    );
}

#[test]
fn chinese_in_a_font_that_is_not_embedded_is_read() {
    let markdown = converted("chinese-not-embedded.pdf").markdown;
    assert_eq!(markdown, "<!-- page 1 -->\n\n王丽说：价格上涨百分之八。\n\nUnits: 4100 台\n");
}

#[test]
fn a_turned_page_reads_upright_and_text_in_forms_is_read() {
    let markdown = converted("turned.pdf").markdown;
    assert_eq!(markdown, "<!-- page 1 -->\n\nLandscape by rotation\n\nsecond line\n\nText inside a form\n");
}

#[test]
fn a_scanned_pdf_is_not_reported_as_success() {
    let error = failure("scanned.pdf", &fixture("scanned.pdf"), &Limits::default());
    assert_eq!(error, ConvertError::NoTextLayer { pages: 1 });
    assert!(error.to_string().starts_with("no text layer: the 1 page(s) hold only scanned images"), "{error}");
    let half = converted("half-scanned.pdf");
    assert_eq!(half.warnings, ["page(s) 2 have no text layer (scanned images)"]);
    assert_eq!(half.pages, Some(2));
}

#[test]
fn documents_under_a_password_say_so_and_merely_restricted_ones_are_read() {
    for name in ["encrypted.pdf", "locked.docx"] {
        let error = failure(name, &fixture(name), &Limits::default());
        assert_eq!(error, ConvertError::Encrypted, "{name}");
        assert!(error.to_string().contains("without the password"));
    }
    assert!(converted("no-printing.pdf").markdown.contains("secret number 4711"));
}

#[test]
fn images_and_archives_get_no_text_but_an_answer() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
    for (name, bytes, kind) in [
        ("a.png", png.as_slice(), DocumentKind::Image),
        ("a.zip", &crate::zip(&[("x.txt", b"x")]), DocumentKind::Archive),
        ("a.doc", b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1\0\0", DocumentKind::OldOffice),
    ] {
        let error = failure(name, bytes, &Limits::default());
        assert!(matches!(error, ConvertError::Unsupported { kind: found, .. } if found == kind), "{error:?}");
    }
}

#[test]
fn time_is_up_between_pages() {
    let limits = Limits { timeout: Duration::ZERO, ..Limits::default() };
    for name in ["plain.pdf", "report.docx", "deck.pptx", "book.xlsx", "book.epub"] {
        assert_eq!(failure(name, &fixture(name), &limits), ConvertError::Timeout { seconds: 0 }, "{name}");
    }
}

#[test]
fn limits_are_read_from_json_with_the_timeout_in_seconds() {
    let limits: Limits = serde_json::from_str(r#"{"timeout_secs": 7, "max_entries": 3}"#).unwrap();
    assert_eq!(limits, Limits { timeout: Duration::from_secs(7), max_entries: 3, ..Limits::default() });
    let back: Limits = serde_json::from_str(&serde_json::to_string(&limits).unwrap()).unwrap();
    assert_eq!(back, limits);
}

/// The sample shipped with the project: its tables, names and pages must come out right.
#[test]
fn the_sample_interview_notes_have_pages_headings_names_and_both_tables() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sales-notes.pdf");
    let converted = convert_bytes("sales-notes.pdf", &std::fs::read(path).unwrap(), &Limits::default()).unwrap();
    let markdown = &converted.markdown;
    assert_eq!((converted.pages, converted.warnings.as_slice()), (Some(4), [].as_slice()));
    assert_eq!(converted.title.as_deref(), Some("Why did sales fall in Q3? Interview notes"));
    for row in [
        "| Region | Q1 units | Q2 units | Q3 units | Change Q3/Q2 | Q3 revenue (EUR) |",
        "| China (中国) | 11,000 | 11,600 | 8,600 | -25.9% | 1,573,800 |",
        "| Total | 50,200 | 52,900 | 41,300 | -21.9% | 7,682,800 |",
        "| Cause | Units lost | Share | Who says so | How sure |",
        "| Lost key account Nordhem | 4,100 | 35% | Lindqvist | counted in the ledger |",
        "| Delayed launch of AirPure 3 | 2,600 | 22% | 王丽, Adler | list of orders seen |",
        "| Promotion of 清风 in China | 400 | 3% | 王丽 | her estimate |",
    ] {
        assert!(markdown.lines().any(|line| line == row), "{row} is missing in\n{markdown}");
    }
    assert!(markdown.contains("\"价格不是唯一的原因。\" - \"The price is not the only reason."));
    let page_of = |text: &str| {
        let line = markdown.lines().position(|line| line.contains(text)).expect(text) + 1;
        page_at_line(markdown, line)
    };
    assert_eq!(page_of("Marta puts one cause above all others"), Some(1));
    assert_eq!(page_of("2,640"), Some(2));
    assert_eq!(page_of("Lost key account Nordhem"), Some(3));
    assert_eq!(page_of("Open questions"), Some(4));
    let titles: Vec<String> = outline(markdown).entries.into_iter().map(|entry| entry.title).collect();
    assert_eq!(
        titles[..4],
        [
            "Why did sales fall in Q3?",
            "1. What we know from the ledger",
            "2. Interviews",
            "2.1 Marta Lindqvist, head of sales North (29 September)"
        ]
    );
    assert_eq!(titles.len(), 13);
}
