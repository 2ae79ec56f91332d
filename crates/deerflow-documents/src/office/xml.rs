//! A thin pull reader over quick-xml: local names, resolved references, lenient about namespaces.

use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::error::ConvertError;

/// Elements deeper than this are no document a person wrote.
const MAX_DEPTH: usize = 512;

/// Events of one XML part; empty elements come as a start and an end.
pub(crate) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.allow_dangling_amp = true;
        Self { reader, depth: 0 }
    }

    /// The next event, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'a>>, ConvertError> {
        let event = self
            .reader
            .read_event()
            .map_err(|error| ConvertError::Damaged { reason: format!("broken XML: {error}") })?;
        match event {
            Event::Eof => return Ok(None),
            Event::Start(_) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(ConvertError::Bomb { reason: format!("XML nested more than {MAX_DEPTH} deep") });
                }
            }
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(Some(event))
    }

    /// All text up to the end of the element just started.
    pub(crate) fn text_until_end(&mut self, name: &str) -> Result<String, ConvertError> {
        let mut out = String::new();
        let mut open = 1_usize;
        while let Some(event) = self.next()? {
            match &event {
                Event::Start(start) if start.local_name().as_ref() == name => open += 1,
                Event::End(end) if end.local_name().as_ref() == name => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                other => push_text(other, &mut out),
            }
        }
        Ok(out)
    }

    /// Skips to the end of the element just started.
    pub(crate) fn skip(&mut self, name: &str) -> Result<(), ConvertError> {
        self.text_until_end(name).map(drop)
    }
}

/// Adds the characters an event stands for, if any.
pub(crate) fn push_text(event: &Event<'_>, out: &mut String) {
    match event {
        Event::Text(text) => out.push_str(&text.xml10_content()),
        Event::CData(text) => out.push_str(&text.xml10_content()),
        Event::GeneralRef(reference) => push_reference(reference, out),
        _ => {}
    }
}

/// Predefined and character references; entities of a document's own are never expanded.
fn push_reference(reference: &BytesRef<'_>, out: &mut String) {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        out.push(character);
    } else if let Some(text) = quick_xml::escape::resolve_predefined_entity(reference) {
        out.push_str(text);
    }
}

/// An attribute by its local name, unescaped.
pub(crate) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = start.attributes().with_checks(false).flatten().find(|a| a.key.local_name().as_ref() == name)?;
    Some(found.normalized_value(XmlVersion::Implicit1_0).map_or_else(|_| found.value.to_string(), |v| v.into_owned()))
}

/// Whether an on/off element (`w:b`, `w:i`) is on: absent value means on.
pub(crate) fn is_on(start: &BytesStart<'_>) -> bool {
    !attribute(start, "val").is_some_and(|value| matches!(value.as_str(), "0" | "false" | "off" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_and_own_entities_are_not_expanded() {
        let text = "<!DOCTYPE a [<!ENTITY big \"lol\">]><a x=\"1 &amp; 2\">R&amp;D &#x738B;&big;<b/></a>";
        let mut xml = Xml::new(text);
        while let Some(event) = xml.next().unwrap() {
            if let Event::Start(start) = event {
                assert_eq!(attribute(&start, "x").as_deref(), Some("1 & 2"));
                assert_eq!(xml.text_until_end("a").unwrap(), "R&D 王");
            }
        }
    }

    #[test]
    fn xml_nested_too_deep_is_refused() {
        let text = "<a>".repeat(600);
        let mut xml = Xml::new(&text);
        let error = loop {
            match xml.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("accepted"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ConvertError::Bomb { .. }));
    }
}
