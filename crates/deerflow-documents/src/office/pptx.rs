//! PowerPoint: one page mark per slide, titles, bullets, tables, speaker notes.

use quick_xml::events::Event;

use super::xml::{Xml, attribute, push_text};
use super::{Runs, core_title, relations};
use crate::archive::Package;
use crate::convert::{Budget, Converted};
use crate::error::ConvertError;
use crate::kind::DocumentKind;
use crate::markdown::{Blocks, one_line, table};
use crate::marks::page_mark;

const MAIN_PART: &str = "ppt/presentation.xml";

pub(crate) fn convert(bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    let mut package = Package::open(bytes, budget.limits)?;
    let slides = slide_parts(&mut package)?;
    let mut blocks = Blocks::new(budget.limits.max_output_chars.saturating_add(1));
    let mut pages = 0_u32;
    let (mut images, mut charts) = (0, 0);
    for part in &slides {
        budget.check_time()?;
        let Some(text) = package.read_text(part)? else { continue };
        pages += 1;
        blocks.push(&page_mark(pages));
        let slide = read_slide(&text)?;
        if let Some(title) = &slide.title {
            blocks.push(&format!("# {title}"));
        }
        slide.blocks.iter().for_each(|block| blocks.push(block));
        images += slide.images;
        charts += slide.charts;
        let notes = relations(&mut package, part)?.into_values().find(|target| target.contains("notesSlides/"));
        if let Some(notes) = notes
            && let Some(text) = package.read_text(&notes)?
        {
            let spoken = read_slide(&text)?.blocks.join("\n");
            if !spoken.trim().is_empty() {
                blocks.push(&format!("Notes: {spoken}"));
            }
        }
        if blocks.is_full() {
            break;
        }
    }
    if pages == 0 {
        return Err(ConvertError::Damaged { reason: "it has no slides".to_owned() });
    }
    let mut converted = Converted::new(DocumentKind::Pptx, blocks.into_text());
    converted.pages = u32::try_from(slides.len()).ok();
    // Programs write their own name here; only a person's title is better than the first slide's.
    converted.title = core_title(&mut package).filter(|title| !title.starts_with("PowerPoint"));
    for (count, what) in [(images, "image(s)"), (charts, "chart(s) or diagram(s)")] {
        if count > 0 {
            converted.warnings.push(format!("{count} {what} on the slides are not part of the text"));
        }
    }
    Ok(converted)
}

/// Slides in the order they are shown.
fn slide_parts(package: &mut Package<'_>) -> Result<Vec<String>, ConvertError> {
    let text = package
        .read_text(MAIN_PART)?
        .ok_or_else(|| ConvertError::Damaged { reason: format!("`{MAIN_PART}` is missing") })?;
    let targets = relations(package, MAIN_PART)?;
    let mut parts = Vec::new();
    let mut xml = Xml::new(&text);
    while let Some(event) = xml.next()? {
        if let Event::Start(start) = event
            && start.local_name().as_ref() == "sldId"
        {
            // The element has an `id` of its own beside the relation's `r:id`.
            let mut attributes = start.attributes();
            let ids = attributes.with_checks(false).flatten().map(|attribute| attribute.value);
            parts.extend(ids.filter_map(|id| targets.get(id.as_ref())).cloned());
        }
    }
    Ok(parts)
}

#[derive(Debug, Default)]
struct Slide {
    title: Option<String>,
    blocks: Vec<String>,
    images: usize,
    charts: usize,
}

/// What a shape is for; slide numbers, dates and footers repeat on every slide and are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Role {
    Title,
    #[default]
    Body,
    Furniture,
}

fn read_slide(text: &str) -> Result<Slide, ConvertError> {
    let mut slide = Slide::default();
    let mut xml = Xml::new(text);
    let (mut role, mut listed) = (Role::Body, false);
    let mut shape: Vec<(usize, String)> = Vec::new();
    let (mut runs, mut level) = (Runs::default(), 0_usize);
    let (mut bold, mut italic) = (false, false);
    let mut rows: Option<Vec<Vec<String>>> = None;
    let mut cell = String::new();
    while let Some(event) = xml.next()? {
        match event {
            Event::Start(start) => match start.local_name().as_ref() {
                "sp" => (role, listed) = (Role::Body, false),
                "ph" => {
                    let kind = attribute(&start, "type").unwrap_or_default();
                    role = match kind.as_str() {
                        "title" | "ctrTitle" => Role::Title,
                        "sldNum" | "dt" | "ftr" | "hdr" | "sldImg" => Role::Furniture,
                        _ => Role::Body,
                    };
                    listed = matches!(kind.as_str(), "" | "body" | "obj");
                }
                "p" => (runs, level) = (Runs::default(), 0),
                "pPr" => level = attribute(&start, "lvl").and_then(|l| l.parse().ok()).unwrap_or(0).min(8),
                "rPr" => {
                    let on = |name| attribute(&start, name).is_some_and(|value| value == "1" || value == "true");
                    (bold, italic) = (on("b"), on("i"));
                }
                "r" => (bold, italic) = (false, false),
                "t" => {
                    let mut text = String::new();
                    while let Some(event) = xml.next()? {
                        if matches!(&event, Event::End(end) if end.local_name().as_ref() == "t") {
                            break;
                        }
                        push_text(&event, &mut text);
                    }
                    runs.push(&text, bold, italic);
                }
                "br" => runs.push("\n", false, false),
                "blip" => slide.images += 1,
                "chart" | "relIds" => slide.charts += 1,
                "tbl" => rows = Some(Vec::new()),
                "tr" => {
                    if let Some(rows) = &mut rows {
                        rows.push(Vec::new());
                    }
                }
                "tc" => cell.clear(),
                "Fallback" => xml.skip("Fallback")?,
                _ => {}
            },
            Event::End(end) => match end.local_name().as_ref() {
                "p" if rows.is_some() => {
                    cell.push('\n');
                    cell.push_str(&runs.render(true));
                }
                "p" => {
                    let text = runs.render(role == Role::Title);
                    if !text.is_empty() {
                        shape.push((level, text));
                    }
                }
                "tc" => {
                    if let Some(row) = rows.as_mut().and_then(|rows| rows.last_mut()) {
                        row.push(std::mem::take(&mut cell));
                    }
                }
                "tbl" => slide.blocks.push(table(&rows.take().unwrap_or_default())),
                "sp" => finish_shape(&mut slide, role, listed, std::mem::take(&mut shape)),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(slide)
}

fn finish_shape(slide: &mut Slide, role: Role, listed: bool, lines: Vec<(usize, String)>) {
    let join = |lines: &[(usize, String)]| lines.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
    match role {
        Role::Furniture => {}
        Role::Title if slide.title.is_none() => {
            slide.title = Some(one_line(&join(&lines))).filter(|title| !title.is_empty());
        }
        // Body placeholders are bullets unless they hold one plain sentence.
        Role::Body if listed && lines.len() > 1 => {
            let items: Vec<String> =
                lines.iter().map(|(level, text)| format!("{}- {}", "   ".repeat(*level), one_line(text))).collect();
            slide.blocks.push(items.join("\n"));
        }
        _ => slide.blocks.push(join(&lines)),
    }
}
