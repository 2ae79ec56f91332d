//! E-books: the chapters of the spine, in reading order.

use std::collections::HashMap;

use quick_xml::events::Event;

use crate::archive::Package;
use crate::convert::{Budget, Converted};
use crate::error::ConvertError;
use crate::html;
use crate::kind::DocumentKind;
use crate::markdown::Blocks;
use crate::marks::chapter_mark;
use crate::office::join;
use crate::office::xml::{Xml, attribute};

pub(crate) fn convert(bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    let mut package = Package::open(bytes, budget.limits)?;
    if is_protected(&mut package)? {
        return Err(ConvertError::Encrypted);
    }
    let missing = |what: &str| ConvertError::Damaged { reason: format!("{what} is missing") };
    let container = package.read_text("META-INF/container.xml")?.ok_or_else(|| missing("`container.xml`"))?;
    let opf_path = first_attribute(&container, "rootfile", "full-path")?.ok_or_else(|| missing("the package file"))?;
    let opf = package.read_text(&opf_path)?.ok_or_else(|| missing("the package file"))?;
    let book = read_opf(&opf)?;
    let folder = opf_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut blocks = Blocks::new(budget.limits.max_output_chars.saturating_add(1));
    let mut read = 0;
    for (index, href) in book.spine.iter().enumerate() {
        budget.check_time()?;
        let path = join(folder, &percent_decode(href.split('#').next().unwrap_or(href)));
        let Some(chapter) = package.read_text(&path)? else { continue };
        read += 1;
        let (markdown, _) = html::to_markdown(&chapter);
        if markdown.trim().is_empty() {
            continue;
        }
        blocks.push(&chapter_mark(index + 1));
        blocks.push(&markdown);
        if blocks.is_full() {
            break;
        }
    }
    if read == 0 {
        return Err(ConvertError::Damaged { reason: "it has no chapters".to_owned() });
    }
    let mut converted = Converted::new(DocumentKind::Epub, blocks.into_text());
    converted.title = book.title;
    let images = package.names().iter().filter(|name| is_image(name)).count();
    if images > 0 {
        converted.warnings.push(format!("{images} image(s) in the book are not part of the text"));
    }
    Ok(converted)
}

#[derive(Debug, Default)]
struct Book {
    title: Option<String>,
    spine: Vec<String>,
}

fn read_opf(text: &str) -> Result<Book, ConvertError> {
    let mut book = Book::default();
    let mut manifest = HashMap::new();
    let mut order = Vec::new();
    let mut xml = Xml::new(text);
    while let Some(event) = xml.next()? {
        let Event::Start(start) = event else { continue };
        match start.local_name().as_ref() {
            "title" if book.title.is_none() => book.title = Some(xml.text_until_end("title")?),
            "item" => {
                if let (Some(id), Some(href)) = (attribute(&start, "id"), attribute(&start, "href")) {
                    manifest.insert(id, href);
                }
            }
            "itemref" => order.extend(attribute(&start, "idref")),
            _ => {}
        }
    }
    book.spine = order.into_iter().filter_map(|id| manifest.get(&id).cloned()).collect();
    Ok(book)
}

/// Whether chapters are locked. Books that only scramble their fonts are open.
fn is_protected(package: &mut Package<'_>) -> Result<bool, ConvertError> {
    let Some(text) = package.read_text("META-INF/encryption.xml")? else { return Ok(false) };
    let mut xml = Xml::new(&text);
    while let Some(event) = xml.next()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == "CipherReference"
            && let Some(uri) = attribute(&start, "URI")
        {
            let uri = uri.to_lowercase();
            if [".xhtml", ".html", ".htm", ".xml"].iter().any(|extension| uri.ends_with(extension)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn first_attribute(text: &str, element: &str, name: &str) -> Result<Option<String>, ConvertError> {
    let mut xml = Xml::new(text);
    while let Some(event) = xml.next()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == element
        {
            return Ok(attribute(&start, name));
        }
    }
    Ok(None)
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match hex.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_image(name: &str) -> bool {
    let name = name.to_lowercase();
    [".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg"].iter().any(|extension| name.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapter_paths_are_percent_decoded() {
        assert_eq!(percent_decode("ch%201/%E7%8E%8B.xhtml"), "ch 1/王.xhtml");
        assert_eq!(percent_decode("50%"), "50%");
        assert_eq!(percent_decode("a%zz"), "a%zz");
    }
}
