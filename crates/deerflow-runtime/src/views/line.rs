//! JSON in the bytes of the wire: one line, `", "` and `": "` between, letters of every script as they are.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};
use std::sync::Arc;

/// One line of JSON.
///
/// Line separators other than CR and LF are escaped: some clients cut an event at them.
pub(crate) fn line(value: &impl Serialize) -> Arc<str> {
    let mut bytes = Vec::with_capacity(256);
    match value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)) {
        // Only JSON text was written.
        Ok(()) => String::from_utf8(bytes).unwrap_or_default().into(),
        Err(error) => {
            tracing::error!(%error, "a frame cannot be written");
            "null".into()
        }
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // All three begin with one of two bytes: almost every text passes untouched.
        let mut rest = fragment;
        while let Some(at) = rest.find(['\u{85}', '\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut letters = tail.chars();
            if let Some(letter) = letters.next() {
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            }
            rest = letters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// BR-030
    #[test]
    fn the_line_has_the_documented_spacing_and_no_odd_separators() {
        let value = json!({"a": [1, "é\u{2028}\u{2029}\u{85}\n"], "b": {}, "c": null});
        let expected = r#"{"a": [1, "é\u2028\u2029\u0085\n"], "b": {}, "c": null}"#;
        assert_eq!(&*line(&value), expected);
    }

    proptest! {
        #[test]
        fn every_text_reads_back_from_one_line(text in any::<String>()) {
            let written = line(&json!({ "k": text }));
            let separators = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
            prop_assert!(!written.contains(separators));
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!({ "k": text }));
        }
    }
}
