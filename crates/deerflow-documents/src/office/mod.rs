//! Word, Excel and PowerPoint (Office Open XML).

pub(crate) mod docx;
pub(crate) mod lists;
pub(crate) mod pptx;
pub(crate) mod styles;
pub(crate) mod xlsx;
pub(crate) mod xml;

use std::collections::HashMap;

use quick_xml::events::Event;

use crate::archive::Package;
use crate::error::ConvertError;
use xml::{Xml, attribute};

/// Relations of one part: id to target path in the package (or to a web address).
pub(crate) fn relations(package: &mut Package<'_>, part: &str) -> Result<HashMap<String, String>, ConvertError> {
    let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
    let path = if folder.is_empty() { format!("_rels/{file}.rels") } else { format!("{folder}/_rels/{file}.rels") };
    let mut relations = HashMap::new();
    let Some(text) = package.read_text(&path)? else { return Ok(relations) };
    let mut xml = Xml::new(&text);
    while let Some(event) = xml.next()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == "Relationship"
            && let (Some(id), Some(target)) = (attribute(&start, "Id"), attribute(&start, "Target"))
        {
            let external = attribute(&start, "TargetMode").is_some_and(|mode| mode == "External");
            let target = if external { target } else { join(folder, &target) };
            relations.insert(id, target);
        }
    }
    Ok(relations)
}

/// The document's own title from its core properties.
pub(crate) fn core_title(package: &mut Package<'_>) -> Option<String> {
    let text = package.read_text("docProps/core.xml").ok()??;
    let mut xml = Xml::new(&text);
    while let Some(event) = xml.next().ok()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == "title"
        {
            let title = xml.text_until_end("title").ok()?;
            return (!title.trim().is_empty()).then_some(title);
        }
    }
    None
}

/// A relative target inside a package: `..` resolved, never above the root.
pub(crate) fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// Bold and italic around a run's text, with the spaces left outside the marks.
pub(crate) fn styled(text: &str, bold: bool, italic: bool) -> String {
    let trimmed = text.trim();
    if trimmed.is_empty() || !(bold || italic) {
        return text.to_owned();
    }
    let mark = match (bold, italic) {
        (true, true) => "***",
        (true, false) => "**",
        _ => "*",
    };
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len();
    format!("{}{mark}{trimmed}{mark}{}", &text[..start], &text[end..])
}

/// A run of text with its style; neighbours of one style are joined so that `**a****b**` never appears.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<(String, bool, bool)>);

impl Runs {
    pub(crate) fn push(&mut self, text: &str, bold: bool, italic: bool) {
        match self.0.last_mut() {
            Some((last, b, i)) if (*b, *i) == (bold, italic) => last.push_str(text),
            _ => self.0.push((text.to_owned(), bold, italic)),
        }
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(|(text, ..)| text.trim().is_empty())
    }

    /// The runs as Markdown; `plain` leaves the marks out (headings and table heads are strong already).
    pub(crate) fn render(&self, plain: bool) -> String {
        let render = |(text, bold, italic): &(String, bool, bool)| styled(text, *bold && !plain, *italic && !plain);
        self.0.iter().map(render).collect::<String>().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_inside_the_package() {
        assert_eq!(join("word", "media/a.png"), "word/media/a.png");
        assert_eq!(join("ppt/slides", "../notesSlides/n.xml"), "ppt/notesSlides/n.xml");
        assert_eq!(join("word", "/xl/a.xml"), "xl/a.xml");
        assert_eq!(join("a", "../../../etc/passwd"), "etc/passwd");
    }

    #[test]
    fn marks_hug_the_words_and_neighbours_join() {
        let mut runs = Runs::default();
        runs.push("sales ", true, false);
        runs.push("fell", true, false);
        runs.push(" by 12 %", false, false);
        assert_eq!(runs.render(false), "**sales fell** by 12 %");
        assert_eq!(runs.render(true), "sales fell by 12 %");
        assert_eq!(styled(" x ", true, true), " ***x*** ");
    }
}
