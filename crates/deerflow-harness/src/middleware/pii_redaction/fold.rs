//! Text as the detectors read it: digits of all scripts as `0` to `9`, full-width forms as ASCII, every dash a `-`, every
//! blank a space, and nothing invisible. Places in it lead back to the original.

use std::borrow::Cow;
use std::ops::Range;

/// The folded text.
pub(super) struct Folded<'a> {
    pub(super) text: Cow<'a, str>,
    /// For each byte of `text`, and one past its end, where it came from; `None` when nothing was changed.
    places: Option<Vec<usize>>,
}

impl<'a> Folded<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        if text.is_ascii() {
            return Self { text: Cow::Borrowed(text), places: None };
        }
        let mut folded = String::with_capacity(text.len());
        let mut places = Vec::with_capacity(text.len() + 1);
        for (at, c) in text.char_indices() {
            if let Some(c) = fold(c) {
                folded.push(c);
                places.resize(folded.len(), at);
            }
        }
        places.push(text.len());
        Self { text: Cow::Owned(folded), places: Some(places) }
    }

    /// The range of the original that became this one.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        match &self.places {
            None => range.clone(),
            Some(places) => places[range.start]..places[range.end],
        }
    }
}

/// Where the decimal digits of a script begin; each has ten in a row.
const ZEROS: [u32; 42] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
    0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50,
    0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0x104A0, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6,
    0x1FBF0,
];

/// `None` for what cannot be seen.
fn fold(c: char) -> Option<char> {
    Some(match c {
        '\0'..='\u{7F}' => c,
        '\u{AD}'
        | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}'
        | '\u{FEFF}' => return None,
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' => '-',
        '\u{2024}' => '.',
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(c as u32 - 0xFEE0).unwrap_or(c),
        c => ZEROS
            .iter()
            .find_map(|zero| (c as u32).checked_sub(*zero).filter(|digit| *digit < 10))
            .and_then(|digit| char::from_digit(digit, 10))
            .unwrap_or(c),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn digits_dashes_and_blanks_become_plain() {
        let fold = |text: &str| Folded::new(text).text.into_owned();
        assert_eq!(fold("４１１１－１１１１　＠ａ．ｂ"), "4111-1111 @a.b");
        assert_eq!(fold("١٢٣\u{a0}۴५\u{2011}๖𝟕"), "123 45-67");
        assert_eq!(fold("4\u{200b}1\u{ad}1王"), "411王");
    }

    #[test]
    fn places_lead_back() {
        let text = "a王 ４１\u{200b}1!";
        let folded = Folded::new(text);
        let at = folded.text.find("411").unwrap();
        assert_eq!(&text[folded.original(&(at..at + 3))], "４１\u{200b}1");
    }

    proptest! {
        #[test]
        fn every_range_between_characters_leads_to_one(text in "\\PC{0,40}") {
            let folded = Folded::new(&text);
            let ends: Vec<usize> = folded.text.char_indices().map(|(at, _)| at).chain([folded.text.len()]).collect();
            for pair in ends.windows(2) {
                prop_assert!(text.get(folded.original(&(pair[0]..pair[1]))).is_some());
            }
        }
    }
}
