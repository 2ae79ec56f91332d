//! What a Word paragraph style means: a heading level, a list, a quotation.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::xml::{Xml, attribute};
use crate::error::ConvertError;

/// The meaning of one style, with what it inherits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// 1 to 6.
    pub(crate) heading: Option<usize>,
    /// `(numbering id, level)`.
    pub(crate) list: Option<(String, usize)>,
    /// A list by the style's name only: ordered or not, and its level.
    pub(crate) named_list: Option<(bool, usize)>,
    pub(crate) quote: bool,
}

#[derive(Debug, Default)]
struct Raw {
    name: String,
    based_on: Option<String>,
    outline: Option<usize>,
    number_id: Option<String>,
    level: usize,
}

/// Styles by id. Chains of `basedOn` are followed, loops ended.
pub(crate) fn parse(text: &str) -> Result<HashMap<String, Style>, ConvertError> {
    let mut raw: HashMap<String, Raw> = HashMap::new();
    let mut current: Option<(String, Raw)> = None;
    let mut xml = Xml::new(text);
    while let Some(event) = xml.next()? {
        match event {
            Event::Start(start) => match (start.local_name().as_ref(), current.as_mut()) {
                ("style", _) => current = attribute(&start, "styleId").map(|id| (id, Raw::default())),
                ("name", Some((_, style))) => style.name = attribute(&start, "val").unwrap_or_default(),
                ("basedOn", Some((_, style))) => style.based_on = attribute(&start, "val"),
                ("outlineLvl", Some((_, style))) => style.outline = number(attribute(&start, "val")),
                ("numId", Some((_, style))) => style.number_id = attribute(&start, "val"),
                ("ilvl", Some((_, style))) => style.level = number(attribute(&start, "val")).unwrap_or(0),
                _ => {}
            },
            Event::End(end) if end.local_name().as_ref() == "style" => {
                raw.extend(current.take());
            }
            _ => {}
        }
    }
    Ok(raw.keys().map(|id| (id.clone(), resolve(&raw, id))).collect())
}

fn resolve(raw: &HashMap<String, Raw>, id: &str) -> Style {
    let mut style = Style::default();
    let mut next = Some(id);
    for _ in 0..16 {
        let Some(found) = next.and_then(|id| raw.get(id)) else { break };
        let own = by_name(&found.name);
        let outline = found.outline.filter(|level| *level < 6).map(|level| level + 1);
        style.heading = style.heading.or(own.heading).or(outline);
        style.list = style.list.or_else(|| found.number_id.clone().map(|id| (id, found.level)));
        style.named_list = style.named_list.or(own.named_list);
        style.quote |= own.quote;
        next = found.based_on.as_deref();
    }
    style
}

/// Word's built-in style names; they stay English in the file whatever the user's language.
pub(crate) fn by_name(name: &str) -> Style {
    let name = name.to_lowercase();
    let mut style = Style::default();
    let level = |prefix: &str| -> Option<usize> {
        let rest = name.strip_prefix(prefix)?.trim();
        if rest.is_empty() { Some(1) } else { rest.parse().ok().filter(|n| (1..=9).contains(n)) }
    };
    if name == "title" {
        style.heading = Some(1);
    } else if name.starts_with("heading ") {
        style.heading = level("heading").map(|level| level.min(6));
    } else if let Some(level) = level("list bullet") {
        style.named_list = Some((false, level - 1));
    } else if let Some(level) = level("list number") {
        style.named_list = Some((true, level - 1));
    }
    style.quote = matches!(name.as_str(), "quote" | "intense quote" | "block text");
    style
}

pub(crate) fn number(text: Option<String>) -> Option<usize> {
    text?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_inherit_and_loops_end() {
        let text = r#"<w:styles xmlns:w="w">
            <w:style w:styleId="H"><w:name w:val="heading 2"/></w:style>
            <w:style w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="H"/></w:style>
            <w:style w:styleId="L"><w:name w:val="List Bullet 2"/><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="7"/></w:numPr></w:pPr></w:style>
            <w:style w:styleId="O"><w:name w:val="x"/><w:basedOn w:val="O"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
        </w:styles>"#;
        let styles = parse(text).unwrap();
        assert_eq!(styles["Mine"].heading, Some(2));
        assert_eq!(styles["L"].list, Some(("7".to_owned(), 1)));
        assert_eq!(styles["L"].named_list, Some((false, 1)));
        assert_eq!(styles["O"].heading, Some(3));
    }

    #[test]
    fn built_in_names_are_known() {
        assert_eq!(by_name("List Number").named_list, Some((true, 0)));
        assert_eq!(by_name("Title").heading, Some(1));
        assert_eq!(by_name("heading 9").heading, Some(6));
        assert!(by_name("Quote").quote);
        assert_eq!(by_name("List Paragraph"), Style::default());
    }
}
