//! The one decoder: bytes to text and back, for reading, searching and editing alike.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// How the bytes of a text file mean characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8 (or ASCII).
    Utf8,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// An older encoding, guessed from the bytes.
    Legacy(&'static Encoding),
}

impl TextEncoding {
    /// Label, as in `charset=`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Legacy(encoding) => encoding.name(),
        }
    }
}

/// Line ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnding {
    /// One line without an end.
    None,
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
    /// Both.
    Mixed,
}

/// A decoded text file and what a rewrite must keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// The text, without byte order mark, line ends as they are.
    pub text: String,
    /// Encoding.
    pub encoding: TextEncoding,
    /// The file starts with a byte order mark.
    pub bom: bool,
    /// Line ends.
    pub line_ending: LineEnding,
    /// The text ends with a line end.
    pub final_newline: bool,
    /// Permission bits.
    pub mode: u32,
    /// Bytes on disk.
    pub size: u64,
    /// SHA-256 of the bytes on disk, lower-case hex; names the version that was read.
    pub sha256: String,
}

/// Text with its encoding, straight from the decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Text without byte order mark.
    pub text: Cow<'a, str>,
    /// Encoding.
    pub encoding: TextEncoding,
    /// A byte order mark was there.
    pub bom: bool,
}

/// Bytes looked at to tell text from binary.
const PROBE: usize = 8192;

/// Decodes text. `None` when the bytes are not text.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Decoded<'_>> {
    if let Some(rest) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        let text = std::str::from_utf8(rest).ok().filter(|text| !has_nul(text.as_bytes()))?;
        return Some(Decoded { text: text.into(), encoding: TextEncoding::Utf8, bom: true });
    }
    // FF FE 00 00 is UTF-32, which nobody edits: it falls to "binary" by its NULs.
    if let Some(rest) = bytes.strip_prefix(b"\xFF\xFE") {
        return decode_utf16(rest, TextEncoding::Utf16Le, true);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFE\xFF") {
        return decode_utf16(rest, TextEncoding::Utf16Be, true);
    }
    let nul = has_nul(&bytes[..bytes.len().min(PROBE)]);
    if !nul && let Ok(text) = std::str::from_utf8(bytes) {
        return Some(Decoded { text: text.into(), encoding: TextEncoding::Utf8, bom: false });
    }
    if nul {
        return utf16_without_mark(bytes).and_then(|encoding| decode_utf16(bytes, encoding, false));
    }
    decode_legacy(bytes)
}

/// Encodes text as it was read. `None` when the encoding lacks a character.
#[must_use]
pub fn encode(text: &str, encoding: TextEncoding, bom: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + 3);
    match encoding {
        TextEncoding::Utf8 => {
            if bom {
                out.extend_from_slice(b"\xEF\xBB\xBF");
            }
            out.extend_from_slice(text.as_bytes());
        }
        TextEncoding::Utf16Le => {
            if bom {
                out.extend_from_slice(b"\xFF\xFE");
            }
            text.encode_utf16().for_each(|unit| out.extend_from_slice(&unit.to_le_bytes()));
        }
        TextEncoding::Utf16Be => {
            if bom {
                out.extend_from_slice(b"\xFE\xFF");
            }
            text.encode_utf16().for_each(|unit| out.extend_from_slice(&unit.to_be_bytes()));
        }
        TextEncoding::Legacy(encoding) => {
            let (bytes, used, lossy) = encoding.encode(text);
            if lossy || used != encoding {
                return None;
            }
            out.extend_from_slice(&bytes);
        }
    }
    Some(out)
}

/// The line ends of a text.
#[must_use]
pub fn line_ending(text: &str) -> LineEnding {
    let total = text.bytes().filter(|b| *b == b'\n').count();
    let crlf = text.matches("\r\n").count();
    match (total, crlf) {
        (0, _) => LineEnding::None,
        (_, 0) => LineEnding::Lf,
        (total, crlf) if total == crlf => LineEnding::CrLf,
        _ => LineEnding::Mixed,
    }
}

/// Media type of a binary, by its first bytes.
#[must_use]
pub fn binary_kind(bytes: &[u8]) -> String {
    infer::get(bytes).map_or_else(|| "unknown type".to_owned(), |kind| kind.mime_type().to_owned())
}

/// Decodes bytes of which the middle or an end may be missing: never fails, what is not UTF-8 is replaced.
#[must_use]
pub fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn has_nul(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

fn decode_utf16(bytes: &[u8], encoding: TextEncoding, bom: bool) -> Option<Decoded<'static>> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let units = bytes.chunks_exact(2).map(|pair| match encoding {
        TextEncoding::Utf16Be => u16::from_be_bytes([pair[0], pair[1]]),
        _ => u16::from_le_bytes([pair[0], pair[1]]),
    });
    let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
    if has_nul(text.as_bytes()) {
        return None;
    }
    Some(Decoded { text: text.into(), encoding, bom })
}

/// Western text in UTF-16 has a NUL in nearly every second byte, always on the same side.
fn utf16_without_mark(bytes: &[u8]) -> Option<TextEncoding> {
    let probe = &bytes[..bytes.len().min(PROBE) & !1];
    let units = probe.len() / 2;
    if units < 4 {
        return None;
    }
    let even = probe.iter().step_by(2).filter(|b| **b == 0).count();
    let odd = probe.iter().skip(1).step_by(2).filter(|b| **b == 0).count();
    match (even, odd) {
        (0, odd) if odd * 10 >= units * 7 => Some(TextEncoding::Utf16Le),
        (even, 0) if even * 10 >= units * 7 => Some(TextEncoding::Utf16Be),
        _ => None,
    }
}

fn decode_legacy(bytes: &[u8]) -> Option<Decoded<'_>> {
    let probe = &bytes[..bytes.len().min(PROBE)];
    let control = probe.iter().filter(|b| **b < 0x20 && !matches!(**b, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)).count();
    if control * 50 > probe.len() || infer::get(bytes).is_some() {
        return None;
    }
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
    detector.feed(&bytes[..bytes.len().min(1 << 20)], true);
    let encoding = detector.guess(None, chardetng::Utf8Detection::Deny);
    let (text, broken) = encoding.decode_without_bom_handling(bytes);
    if broken {
        return None;
    }
    Some(Decoded { text, encoding: TextEncoding::Legacy(encoding), bom: false })
}

#[cfg(test)]
mod tests;
