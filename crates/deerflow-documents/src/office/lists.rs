//! Numbering of Word lists: which are ordered, and the running numbers.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::styles::number;
use super::xml::{Xml, attribute};
use crate::error::ConvertError;

/// Deepest list level kept.
const MAX_LEVEL: usize = 8;

/// The definitions of `numbering.xml` and the counters of the document being read.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Numbering id to abstract id.
    numbers: HashMap<String, String>,
    /// `(abstract id, level)` to whether it counts.
    ordered: HashMap<(String, usize), bool>,
    counters: HashMap<String, [usize; MAX_LEVEL + 1]>,
}

impl Lists {
    pub(crate) fn parse(text: &str) -> Result<Self, ConvertError> {
        let mut lists = Self::default();
        let (mut current_abstract, mut level, mut num): (Option<String>, usize, Option<String>) = (None, 0, None);
        let mut xml = Xml::new(text);
        while let Some(event) = xml.next()? {
            match event {
                Event::Start(start) => match start.local_name().as_ref() {
                    "abstractNum" => current_abstract = attribute(&start, "abstractNumId"),
                    "lvl" => level = number(attribute(&start, "ilvl")).unwrap_or(0),
                    "numFmt" => {
                        if let Some(id) = &current_abstract {
                            let format = attribute(&start, "val").unwrap_or_default();
                            let ordered = !matches!(format.as_str(), "bullet" | "none" | "");
                            lists.ordered.insert((id.clone(), level), ordered);
                        }
                    }
                    "num" => num = attribute(&start, "numId"),
                    "abstractNumId" => {
                        if let (Some(num), Some(id)) = (num.take(), attribute(&start, "val")) {
                            lists.numbers.insert(num, id);
                        }
                    }
                    _ => {}
                },
                Event::End(end) if end.local_name().as_ref() == "abstractNum" => current_abstract = None,
                _ => {}
            }
        }
        Ok(lists)
    }

    /// The mark of the next item: indent and `-` or its number. `None` for numbering id 0, which means "no list".
    pub(crate) fn mark(&mut self, id: &str, level: usize) -> Option<String> {
        if id == "0" {
            return None;
        }
        let ordered = self.numbers.get(id).and_then(|abs| self.ordered.get(&(abs.clone(), level))).copied();
        Some(self.item(id, level, ordered.unwrap_or(false)))
    }

    /// The mark of an item whose list is known by its style's name only.
    pub(crate) fn named_mark(&mut self, ordered: bool, level: usize) -> String {
        self.item(if ordered { "\0number" } else { "\0bullet" }, level, ordered)
    }

    fn item(&mut self, id: &str, level: usize, ordered: bool) -> String {
        let level = level.min(MAX_LEVEL);
        let indent = "   ".repeat(level);
        let counters = self.counters.entry(id.to_owned()).or_default();
        counters[level] += 1;
        counters[level + 1..].fill(0);
        if ordered { format!("{indent}{}. ", counters[level]) } else { format!("{indent}- ") }
    }

    /// A heading ends lists that are known by name only.
    pub(crate) fn restart_named(&mut self) {
        self.counters.remove("\0number");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_levels_count_and_deeper_ones_restart() {
        let text = r#"<w:numbering xmlns:w="w"><w:abstractNum w:abstractNumId="5">
            <w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl>
            </w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="5"/></w:num></w:numbering>"#;
        let mut lists = Lists::parse(text).unwrap();
        let marks: Vec<_> = [0, 1, 0].into_iter().map(|level| lists.mark("1", level).unwrap()).collect();
        assert_eq!(marks, ["1. ", "   - ", "2. "]);
        assert_eq!(lists.mark("0", 0), None);
        assert_eq!(lists.mark("unknown", 99).as_deref(), Some("                        - "));
    }
}
