//! One decoder for every text: byte order marks, UTF-16, legacy encodings; binary is refused.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// How much of a file is looked at to guess its encoding.
const SAMPLE: usize = 1 << 20;

/// A text file's characters and how they were stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedText {
    /// The text, without its byte order mark. Line ends are as stored.
    pub text: String,
    /// The encoding's WHATWG name: `UTF-8`, `UTF-16LE`, `GBK`, `Shift_JIS`, `windows-1252`…; or `UTF-32LE`/`UTF-32BE`.
    pub encoding: &'static str,
    /// Whether the file began with a byte order mark.
    pub had_bom: bool,
    /// Whether some bytes were not valid and became U+FFFD: writing the text back would change the file.
    pub lossy: bool,
}

/// The text in `bytes`, or `None` when they are not text.
#[must_use]
pub fn decode_text(bytes: &[u8]) -> Option<DecodedText> {
    if let Some(decoded) = with_byte_order_mark(bytes) {
        return decoded;
    }
    // ASCII in UTF-16 is valid UTF-8 too, full of zero characters: not texty, so it is looked at again below.
    if let Ok(text) = std::str::from_utf8(bytes)
        && is_texty(text)
    {
        return Some(DecodedText { text: text.to_owned(), encoding: "UTF-8", had_bom: false, lossy: false });
    }
    if let Some(encoding) = utf16_without_mark(bytes) {
        return decode_with(bytes, encoding).filter(|decoded| is_texty(&decoded.text));
    }
    if bytes.contains(&0) {
        return None;
    }
    if is_nearly_utf8(bytes) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        return is_texty(&text).then_some(DecodedText { text, encoding: "UTF-8", had_bom: false, lossy: true });
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE);
    let encoding = detector.guess(None, Utf8Detection::Allow);
    decode_with(bytes, encoding).filter(|decoded| is_texty(&decoded.text))
}

/// The text of `bytes` in a named encoding (an HTML or XML declaration); `None` for an unknown label.
pub(crate) fn decode_label(bytes: &[u8], label: &str) -> Option<String> {
    let encoding = Encoding::for_label(label.trim().as_bytes())?;
    Some(encoding.decode(bytes).0.into_owned())
}

/// `Some(None)`: a mark was found and the rest is not text.
fn with_byte_order_mark(bytes: &[u8]) -> Option<Option<DecodedText>> {
    for (mark, name, big) in [([0xFF, 0xFE, 0, 0], "UTF-32LE", false), ([0, 0, 0xFE, 0xFF], "UTF-32BE", true)] {
        if bytes.starts_with(&mark) && bytes.len().is_multiple_of(4) {
            return Some(utf32(&bytes[4..], big).map(|text| DecodedText {
                text,
                encoding: name,
                had_bom: true,
                lossy: false,
            }));
        }
    }
    let (encoding, length) = Encoding::for_bom(bytes)?;
    let decoded = decode_with(&bytes[length..], encoding).map(|decoded| DecodedText { had_bom: true, ..decoded });
    Some(decoded.filter(|decoded| is_texty(&decoded.text)))
}

fn utf32(bytes: &[u8], big: bool) -> Option<String> {
    let unit = |b: &[u8]| {
        let raw = [b[0], b[1], b[2], b[3]];
        char::from_u32(if big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
    };
    bytes.chunks_exact(4).map(unit).collect::<Option<String>>().filter(|text| is_texty(text))
}

fn decode_with(bytes: &[u8], encoding: &'static Encoding) -> Option<DecodedText> {
    let (text, lossy) = encoding.decode_without_bom_handling(bytes);
    let text = text.into_owned();
    // A few bad bytes are a damaged text; many are not a text in this encoding.
    if lossy {
        let bad = text.chars().filter(|character| *character == '\u{FFFD}').count();
        if bad * 20 > text.chars().count() {
            return None;
        }
    }
    Some(DecodedText { text, encoding: encoding.name(), had_bom: false, lossy })
}

/// UTF-16 is told by its zero bytes: in Latin text nearly all of them sit on one side of each pair.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.len() < 4 || !bytes.len().is_multiple_of(2) {
        return None;
    }
    let sample = &bytes[..bytes.len().min(4096) & !1];
    let pairs = sample.len() / 2;
    let zeros = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|byte| **byte == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    if second * 10 > pairs * 3 && first * 20 <= pairs {
        Some(UTF_16LE)
    } else if first * 10 > pairs * 3 && second * 20 <= pairs {
        Some(UTF_16BE)
    } else {
        None
    }
}

/// Whether the bytes are UTF-8 but for a few: a log with a torn line, not a legacy encoding.
fn is_nearly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        bad += chunk.invalid().len();
    }
    good >= 8 && bad * 4 <= good
}

/// Whether decoded characters look like something a person or program wrote as text.
fn is_texty(text: &str) -> bool {
    let mut total = 0_usize;
    let mut odd = 0_usize;
    for character in text.chars() {
        total += 1;
        match character {
            '\t' | '\n' | '\r' | '\u{c}' | '\u{b}' | '\u{1b}' | '\u{8}' => {}
            '\0' => return false,
            character if character.is_control() || ('\u{FFF0}'..='\u{FFFB}').contains(&character) => odd += 1,
            _ => {}
        }
    }
    odd * 100 <= total
}

/// `UTF-8` unless told otherwise: for parsers that must have some text.
pub(crate) fn decode_or_lossy(bytes: &[u8]) -> String {
    decode_text(bytes).map_or_else(|| UTF_8.decode(bytes).0.into_owned(), |decoded| decoded.text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn encoded(text: &str, label: &str) -> Vec<u8> {
        Encoding::for_label(label.as_bytes()).unwrap().encode(text).0.into_owned()
    }

    fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
        let units = mark.then_some(0xFEFF).into_iter().chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], text: &str, encoding: &str, had_bom: bool) {
        let decoded = decode_text(bytes).expect("is text");
        assert_eq!((decoded.text.as_str(), decoded.encoding, decoded.had_bom), (text, encoding, had_bom));
    }

    #[test]
    fn a_utf8_byte_order_mark_is_dropped_and_reported() {
        check("\u{FEFF}key: value\n".as_bytes(), "key: value\n", "UTF-8", true);
        check(b"", "", "UTF-8", false);
    }

    #[test]
    fn utf16_is_text_with_and_without_a_mark_not_called_binary() {
        for big in [false, true] {
            let name = if big { "UTF-16BE" } else { "UTF-16LE" };
            check(&utf16("region,units\nNord,12\n", big, true), "region,units\nNord,12\n", name, true);
            check(&utf16("region,units\nNord,12\n", big, false), "region,units\nNord,12\n", name, false);
        }
        let mark: Vec<u8> = "\u{FEFF}Käse 王".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        check(&mark, "Käse 王", "UTF-32LE", true);
    }

    #[test]
    fn legacy_encodings_are_guessed() {
        let chinese = "销售下降的原因：价格上涨，王丽表示客户流失严重。竞争对手降价百分之十五。\n";
        check(&encoded(chinese, "gb18030"), chinese, "GBK", false);
        let japanese = "売上が減少した理由は値上げです。田中さんはそう説明しました。\n";
        check(&encoded(japanese, "shift_jis"), japanese, "Shift_JIS", false);
        let german = "Die Umsätze fielen für Größe »M« um 12 %; der Käufer war müde.\n";
        check(&encoded(german, "windows-1252"), german, "windows-1252", false);
        let russian = "Продажи упали из-за повышения цен и задержки поставок.\n";
        check(&encoded(russian, "windows-1251"), russian, "windows-1251", false);
    }

    #[test]
    fn one_bad_byte_does_not_turn_a_utf8_file_into_mojibake() {
        let mut bytes = "Größe, Käse, Müller, Straße, Österreich, 王丽 – fertig\n".as_bytes().to_vec();
        bytes.push(0xC3);
        let decoded = decode_text(&bytes).expect("is text");
        assert!(decoded.lossy);
        assert_eq!(decoded.encoding, "UTF-8");
        assert!(decoded.text.starts_with("Größe, Käse"));
    }

    #[test]
    fn binary_is_refused() {
        assert_eq!(decode_text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0"), None);
        assert_eq!(decode_text(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"), None);
        assert_eq!(decode_text(b"\x01\x02\x03\x04\x05"), None);
        let noise: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(decode_text(&noise), None);
    }
}
