//! PDF: text in reading order, page by page, with headings by size and tables by position.
//!
//! `pdf-extract` interprets fonts and positions glyphs; it panics on much that real files contain, so pages are first
//! rewritten to the operators that matter ([`prepare`], [`fonts`]), and what still fails costs one page, not the file.

mod columns;
mod fonts;
mod glyphs;
mod lines;
mod prepare;
mod render;
mod tables;
mod weigh;

use pdf_extract::{Document, Object, ObjectId};

use crate::convert::{Budget, Converted};
use crate::error::ConvertError;
use crate::kind::DocumentKind;
use crate::marks::page_mark;
use crate::worker::quiet_catch;
use glyphs::PageSink;
use lines::Line;
use render::Renderer;

/// Fewer visible characters than this per page on pages with pictures is a scan (a stamp, a page number), not a text.
const SCAN_CHARS_PER_PAGE: usize = 10;

pub(crate) fn convert(bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    weigh::object_streams(bytes, budget.limits)?;
    let mut document = load(bytes)?;
    budget.check_time()?;
    let mut warnings = weigh::streams(&mut document, budget.limits)?;
    fonts::repair(&mut document);
    let pages: Vec<(u32, ObjectId)> = document.get_pages().into_iter().collect();
    if pages.is_empty() {
        return Err(ConvertError::Damaged { reason: "it has no pages".to_owned() });
    }
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let mut read = Vec::new();
    let mut chars = 0;
    for (number, id) in &pages {
        budget.check_time()?;
        let page = read_page(&mut document, *number, *id, budget)?;
        chars += page.chars;
        read.push(page);
        if chars > budget.limits.max_output_chars {
            break;
        }
    }
    let images: usize = read.iter().map(|page| page.images).sum();
    if chars == 0 || (images >= read.len() && chars < SCAN_CHARS_PER_PAGE * read.len()) {
        return Err(ConvertError::NoTextLayer { pages: count });
    }
    let mut converted = Converted::new(DocumentKind::Pdf, markdown(&read));
    converted.pages = Some(count);
    converted.title = title(&document);
    warnings.extend(page_warnings(&read, images));
    converted.warnings = warnings;
    Ok(converted)
}

fn load(bytes: &[u8]) -> Result<Document, ConvertError> {
    let damaged = |error: &dyn std::fmt::Display| ConvertError::Damaged { reason: error.to_string() };
    let mut document = Document::load_mem(bytes).map_err(|error| match error {
        pdf_extract::Error::Decryption(_) | pdf_extract::Error::InvalidPassword => ConvertError::Encrypted,
        other => damaged(&other),
    })?;
    // Files that only forbid printing or copying open with the empty password.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(ConvertError::Encrypted);
    }
    Ok(document)
}

/// What was read from one page.
#[derive(Debug, Default)]
struct Page {
    number: u32,
    lines: Vec<Line>,
    rules: Vec<glyphs::Rule>,
    /// Text at an angle (stamps, sideways labels), already joined.
    rotated: Vec<String>,
    /// Text without positions, when only the plain reader could read the page.
    plain: Option<String>,
    chars: usize,
    images: usize,
    incomplete: bool,
}

fn read_page(document: &mut Document, number: u32, id: ObjectId, budget: Budget<'_>) -> Result<Page, ConvertError> {
    let mut page = Page { number, ..Page::default() };
    let Some(prepared) = prepare::page(document, id) else {
        page.incomplete = true;
        return Ok(page);
    };
    page.images = prepared.images;
    let mut sink = PageSink::new(prepared.rotation, budget.limits.max_output_chars);
    let outcome = quiet_catch(std::panic::AssertUnwindSafe(|| {
        pdf_extract::output_doc_page(document, &mut sink, number).map_err(|error| error.to_string())
    }));
    let failed = !matches!(outcome, Ok(Ok(())));
    page.incomplete = failed || prepared.incomplete;
    let found = sink.finish();
    if failed && found.horizontal.is_empty() {
        budget.check_time()?;
        let text = quiet_catch(std::panic::AssertUnwindSafe(|| document.extract_text(&[number]).unwrap_or_default()));
        let text = text.unwrap_or_default();
        page.chars = visible(&text);
        page.plain = (page.chars > 0).then_some(text);
        return Ok(page);
    }
    page.lines = lines::build(found.horizontal);
    page.rotated = found.rotated.into_iter().flat_map(lines::build).map(|line| line.text()).collect();
    page.rules = found.rules;
    page.chars = page.lines.iter().map(|line| visible(&line.text())).sum::<usize>()
        + page.rotated.iter().map(|text| visible(text)).sum::<usize>();
    Ok(page)
}

fn visible(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn markdown(pages: &[Page]) -> String {
    let renderer = Renderer::new(pages.iter().flat_map(|page| &page.lines));
    let mut out = String::new();
    for page in pages {
        out.push_str(&page_mark(page.number));
        out.push_str("\n\n");
        if let Some(plain) = &page.plain {
            plain.lines().for_each(|line| {
                out.push_str(&render::safe(line.trim()));
                out.push('\n');
            });
        }
        out.push_str(&renderer.page(&page.lines, &page.rules));
        for text in &page.rotated {
            out.push_str("\n\n");
            out.push_str(&render::safe(text));
        }
        out.push_str("\n\n");
    }
    out
}

fn page_warnings(pages: &[Page], images: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let list = |wanted: &dyn Fn(&Page) -> bool| {
        let numbers: Vec<u32> = pages.iter().filter(|page| wanted(page)).map(|page| page.number).collect();
        numbers
    };
    let scanned = list(&|page| page.chars == 0 && page.images > 0);
    if !scanned.is_empty() {
        warnings.push(format!("page(s) {} have no text layer (scanned images)", ranges(&scanned)));
    }
    let incomplete = list(&|page| page.incomplete);
    if !incomplete.is_empty() {
        warnings.push(format!("page(s) {} could not be read completely", ranges(&incomplete)));
    }
    let pictures = images.saturating_sub(scanned.len());
    if pictures > 0 {
        warnings.push(format!("{pictures} image(s) in the document are not part of the text"));
    }
    warnings
}

/// `1-3, 7` for `[1, 2, 3, 7]`.
fn ranges(numbers: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, end)) if *end + 1 == *number => *end = *number,
            _ => spans.push((*number, *number)),
        }
    }
    let text = |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    spans.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn title(document: &Document) -> Option<String> {
    let info = document.trailer.get(b"Info").ok()?;
    let (_, info) = document.dereference(info).ok()?;
    let (_, title) = document.dereference(info.as_dict().ok()?.get(b"Title").ok()?).ok()?;
    let Object::String(bytes, _) = title else { return None };
    let text = match bytes.as_slice() {
        [0xFE, 0xFF, rest @ ..] => encoding_rs::UTF_16BE.decode(rest).0.into_owned(),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        other => encoding_rs::WINDOWS_1252.decode(other).0.into_owned(),
    };
    // Word processors leave these when nobody set a title.
    let text = text.trim();
    let useless = text.is_empty() || text.eq_ignore_ascii_case("untitled") || text.starts_with("Microsoft Word - ");
    (!useless && !text.eq_ignore_ascii_case("(anonymous)")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_lists_are_short() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(ranges(&[4]), "4");
    }
}
