//! XML. Entities are not expanded and nothing is fetched.

use super::{KEYS, Kind, Synopsis, VALUE_CHARS, one_line};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;

/// A well-formed document with one root. HTML as browsers take it is none.
pub(super) fn xml(text: &str) -> Option<Synopsis> {
    let text = text.trim();
    if !text.starts_with('<') {
        return None;
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut root = None;
    let mut children: HashMap<String, usize> = HashMap::new();
    let (mut depth, mut elements) = (0_usize, 0_usize);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                elements += 1;
                match depth {
                    0 if root.is_some() => return None,
                    0 => root = Some((name_of(&start), start.attributes().count())),
                    1 => *children.entry(name_of(&start)).or_default() += 1,
                    _ => {}
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.checked_sub(1)?,
            Event::Text(text) if depth == 0 && !text.trim().is_empty() => return None,
            Event::CData(_) | Event::GeneralRef(_) if depth == 0 => return None,
            Event::Eof => break,
            _ => {}
        }
    }
    let (name, attributes) = root.filter(|_| depth == 0)?;
    let mut children: Vec<_> = children.into_iter().collect();
    children.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));

    let mut synopsis = Synopsis::new(
        Kind::Xml,
        "XML output",
        format!("XML document with root element {name} and {elements} elements."),
    );
    synopsis.structure = vec![format!("root element: {name}"), format!("root attributes: {attributes}")];
    synopsis.structure.extend(children.iter().take(KEYS).map(|(child, count)| format!("{child}: {count}")));
    Some(synopsis)
}

fn name_of(start: &BytesStart<'_>) -> String {
    one_line(start.name().as_ref(), VALUE_CHARS)
}
