//! Word documents: headings, lists, tables, links, notes, page breaks.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};

use super::lists::Lists;
use super::styles::{self, Style, number};
use super::xml::{Xml, attribute, is_on, push_text};
use super::{Runs, core_title, relations};
use crate::archive::Package;
use crate::convert::{Budget, Converted};
use crate::error::ConvertError;
use crate::kind::DocumentKind;
use crate::markdown::{Blocks, one_line, table};
use crate::marks::page_mark;

const MAIN_PART: &str = "word/document.xml";

pub(crate) fn convert(bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    let mut package = Package::open(bytes, budget.limits)?;
    let text = package
        .read_text(MAIN_PART)?
        .ok_or_else(|| ConvertError::Damaged { reason: format!("`{MAIN_PART}` is missing") })?;
    let links = relations(&mut package, MAIN_PART)?;
    let styles = package.read_text("word/styles.xml")?.map_or_else(|| Ok(HashMap::new()), |t| styles::parse(&t))?;
    let lists = package.read_text("word/numbering.xml")?.map_or_else(|| Ok(Lists::default()), |t| Lists::parse(&t))?;
    let mut notes = Vec::new();
    for (part, element) in [("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")] {
        if let Some(text) = package.read_text(part)? {
            notes.extend(read_notes(&text, element)?);
        }
    }
    budget.check_time()?;
    // Word notes where its last layout broke pages; files of other programs only have the breaks the author made.
    let rendered = text.contains("lastRenderedPageBreak");
    let mut reader = Body {
        xml: Xml::new(&text),
        links,
        styles,
        lists,
        rendered,
        paragraphs: Vec::new(),
        tables: Vec::new(),
        blocks: Blocks::new(budget.limits.max_output_chars.saturating_add(1)),
        in_list: false,
        page: 1,
        break_pending: false,
        images: 0,
        budget,
    };
    reader.run()?;
    let Body { mut blocks, page, images, .. } = reader;
    for (label, text) in notes {
        blocks.push(&format!("[^{label}]: {text}"));
    }
    let paged = page > 1;
    let body = blocks.into_text();
    let markdown = if paged { format!("{}\n\n{body}", page_mark(1)) } else { body };
    let mut converted = Converted::new(DocumentKind::Docx, markdown);
    converted.pages = paged.then_some(page);
    converted.title = core_title(&mut package);
    if images > 0 {
        converted.warnings.push(format!("{images} image(s) in the document are not part of the text"));
    }
    Ok(converted)
}

/// A paragraph being read. Text boxes put paragraphs inside paragraphs.
#[derive(Debug, Default)]
struct Paragraph {
    runs: Runs,
    style: Style,
    list: Option<(String, usize)>,
    bold: bool,
    italic: bool,
    link: Option<String>,
}

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    cell: String,
    span: usize,
    continues: bool,
}

struct Body<'a, 'b> {
    xml: Xml<'a>,
    links: HashMap<String, String>,
    styles: HashMap<String, Style>,
    lists: Lists,
    rendered: bool,
    paragraphs: Vec<Paragraph>,
    tables: Vec<Table>,
    blocks: Blocks,
    in_list: bool,
    page: u32,
    break_pending: bool,
    images: usize,
    budget: Budget<'b>,
}

impl Body<'_, '_> {
    fn run(&mut self) -> Result<(), ConvertError> {
        let mut events = 0_u32;
        while let Some(event) = self.xml.next()? {
            events = events.wrapping_add(1);
            if events.is_multiple_of(65_536) {
                self.budget.check_time()?;
            }
            match event {
                Event::Start(start) => self.start(&start)?,
                Event::End(end) => self.end(end.local_name().as_ref()),
                _ => {}
            }
            if self.blocks.is_full() {
                break;
            }
        }
        Ok(())
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), ConvertError> {
        let name = start.local_name();
        match name.as_ref() {
            "p" => self.paragraphs.push(Paragraph::default()),
            "tbl" => self.tables.push(Table::default()),
            // The same content again for old programs; deleted text; a field's code; a property's previous value.
            skipped @ ("Fallback" | "del" | "moveFrom" | "instrText" | "rPrChange" | "pPrChange") => {
                self.xml.skip(skipped)?
            }
            "lastRenderedPageBreak" if self.rendered => self.page_break(),
            "br" if attribute(start, "type").is_some_and(|kind| kind == "page") => {
                if !self.rendered {
                    self.page_break();
                }
            }
            "blip" | "imagedata" => self.images += 1,
            "gridSpan" => {
                if let Some(table) = self.tables.last_mut() {
                    table.span = number(attribute(start, "val")).unwrap_or(1).clamp(1, 64);
                }
            }
            "vMerge" => {
                if let Some(table) = self.tables.last_mut() {
                    table.continues = attribute(start, "val").is_none_or(|value| value == "continue");
                }
            }
            other => self.in_paragraph(other, start)?,
        }
        Ok(())
    }

    fn in_paragraph(&mut self, name: &str, start: &BytesStart<'_>) -> Result<(), ConvertError> {
        let Some(paragraph) = self.paragraphs.last_mut() else { return Ok(()) };
        match name {
            "pStyle" => {
                let id = attribute(start, "val").unwrap_or_default();
                paragraph.style = self.styles.get(&id).cloned().unwrap_or_else(|| styles::by_name(&id));
            }
            "ilvl" => {
                let level = number(attribute(start, "val")).unwrap_or(0);
                paragraph.list.get_or_insert_default().1 = level;
            }
            "numId" => paragraph.list.get_or_insert_default().0 = attribute(start, "val").unwrap_or_default(),
            "r" => (paragraph.bold, paragraph.italic) = (false, false),
            "b" => paragraph.bold = is_on(start),
            "i" => paragraph.italic = is_on(start),
            "t" => {
                let mut text = String::new();
                while let Some(event) = self.xml.next()? {
                    if matches!(&event, Event::End(end) if end.local_name().as_ref() == "t") {
                        break;
                    }
                    push_text(&event, &mut text);
                }
                paragraph.runs.push(&text, paragraph.bold, paragraph.italic);
            }
            "tab" => paragraph.runs.push(" ", paragraph.bold, paragraph.italic),
            "br" | "cr" => paragraph.runs.push("\n", false, false),
            "noBreakHyphen" => paragraph.runs.push("-", paragraph.bold, paragraph.italic),
            "hyperlink" => {
                let target = attribute(start, "id").and_then(|id| self.links.get(&id)).cloned();
                if target.is_some() {
                    paragraph.runs.push("[", false, false);
                }
                paragraph.link = target;
            }
            "footnoteReference" | "endnoteReference" => {
                let prefix = if name == "endnoteReference" { "e" } else { "" };
                if let Some(id) = attribute(start, "id") {
                    paragraph.runs.push(&format!("[^{prefix}{id}]"), false, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" => {
                if let Some(paragraph) = self.paragraphs.pop() {
                    self.finish_paragraph(&paragraph);
                }
            }
            "hyperlink" => {
                if let Some(paragraph) = self.paragraphs.last_mut()
                    && let Some(link) = paragraph.link.take()
                {
                    paragraph.runs.push(&format!("]({link})"), false, false);
                }
            }
            "tc" => {
                if let Some(table) = self.tables.last_mut() {
                    let text = std::mem::take(&mut table.cell);
                    let text = if std::mem::take(&mut table.continues) { String::new() } else { text };
                    table.row.push(text);
                    let extra = std::mem::take(&mut table.span).saturating_sub(1);
                    table.row.extend(std::iter::repeat_n(String::new(), extra));
                }
            }
            "tr" => {
                if let Some(table) = self.tables.last_mut() {
                    let row = std::mem::take(&mut table.row);
                    table.rows.push(row);
                }
            }
            "tbl" => self.finish_table(),
            _ => {}
        }
    }

    fn finish_paragraph(&mut self, paragraph: &Paragraph) {
        if self.paragraphs.is_empty() && self.tables.is_empty() {
            self.flush_break();
        }
        if paragraph.runs.is_blank() {
            return;
        }
        let heading = paragraph.style.heading.filter(|_| self.tables.is_empty());
        let text = paragraph.runs.render(heading.is_some());
        if let Some(table) = self.tables.last_mut() {
            if !table.cell.is_empty() {
                table.cell.push('\n');
            }
            table.cell.push_str(&text);
            return;
        }
        if let Some(level) = heading {
            self.lists.restart_named();
            self.blocks.push(&format!("{} {}", "#".repeat(level), one_line(&text)));
            self.in_list = false;
            return;
        }
        if let Some(mark) = self.list_mark(paragraph) {
            let line = format!("{mark}{}", one_line(&text));
            if self.in_list {
                self.blocks.push_line(&line)
            } else {
                self.blocks.push(&line)
            }
            self.in_list = true;
            return;
        }
        self.in_list = false;
        if paragraph.style.quote {
            let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
            self.blocks.push(&quoted.join("\n"));
        } else {
            self.blocks.push(&text);
        }
    }

    fn list_mark(&mut self, paragraph: &Paragraph) -> Option<String> {
        let own = paragraph.list.clone().filter(|(id, _)| !id.is_empty());
        let level = paragraph.list.as_ref().map(|(_, level)| *level);
        if let Some((id, level)) = own {
            return self.lists.mark(&id, level);
        }
        if let Some((id, style_level)) = paragraph.style.list.clone() {
            let level = level.or(paragraph.style.named_list.map(|(_, level)| level)).unwrap_or(style_level);
            // A style of level two has its own numbering in Word's defaults, defined at level zero.
            return self.lists.mark(&id, 0).map(|mark| format!("{}{mark}", "   ".repeat(level.min(8))));
        }
        paragraph.style.named_list.map(|(ordered, level)| self.lists.named_mark(ordered, level))
    }

    fn finish_table(&mut self) {
        let Some(finished) = self.tables.pop() else { return };
        let rows: Vec<Vec<String>> = finished.rows.into_iter().filter(|row| !row.is_empty()).collect();
        if let Some(outer) = self.tables.last_mut() {
            // Markdown has no tables in tables: the inner one becomes lines of the cell.
            let lines: Vec<String> = rows.iter().map(|row| one_line(&row.join(" "))).collect();
            outer.cell.push('\n');
            outer.cell.push_str(&lines.join("\n"));
        } else {
            self.in_list = false;
            self.blocks.push(&table(&rows));
            self.flush_break();
        }
    }

    fn page_break(&mut self) {
        self.page = self.page.saturating_add(1);
        self.break_pending = true;
    }

    /// The mark goes above the paragraph in which the page began: a paragraph is not torn for it.
    fn flush_break(&mut self) {
        if std::mem::take(&mut self.break_pending) {
            self.in_list = false;
            self.blocks.push(&page_mark(self.page));
        }
    }
}

/// Notes by the label used in the text; Word's separators have ids below 1 or a type.
fn read_notes(text: &str, element: &str) -> Result<Vec<(String, String)>, ConvertError> {
    let prefix = if element == "endnote" { "e" } else { "" };
    let mut notes = Vec::new();
    let mut xml = Xml::new(text);
    while let Some(event) = xml.next()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == element
        {
            let kind = attribute(&start, "type");
            let text = one_line(&xml.text_until_end(element)?);
            if let (None, Some(id)) = (kind, attribute(&start, "id"))
                && !text.is_empty()
            {
                notes.push((format!("{prefix}{id}"), text));
            }
        }
    }
    Ok(notes)
}
