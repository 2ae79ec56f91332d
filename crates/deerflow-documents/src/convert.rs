//! One document's bytes to Markdown.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::encoding::decode_text;
use crate::error::ConvertError;
use crate::kind::{DocumentKind, is_encrypted_package};
use crate::limits::Limits;
use crate::markdown::{one_line, tidy};
use crate::{csv_table, epub, html, office, pdf, worker};

/// A document as Markdown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Converted {
    /// The text, ending in one newline. Pages and slides open with [`page_mark`](crate::page_mark) lines.
    pub markdown: String,
    /// What the file was.
    pub kind: DocumentKind,
    /// Pages or slides, for kinds that have them.
    pub pages: Option<u32>,
    /// The document's own title, or its first heading.
    pub title: Option<String>,
    /// What was left out or could not be read, as sentences for the user.
    pub warnings: Vec<String>,
}

impl Converted {
    pub(crate) fn new(kind: DocumentKind, markdown: String) -> Self {
        Self { markdown, kind, pages: None, title: None, warnings: Vec::new() }
    }
}

/// Limits plus the moment to give up, handed to every reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget<'a> {
    pub(crate) limits: &'a Limits,
    deadline: Option<Instant>,
}

impl<'a> Budget<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self { limits, deadline: Instant::now().checked_add(limits.timeout) }
    }

    /// Called between pages, sheets and chapters.
    pub(crate) fn check_time(&self) -> Result<(), ConvertError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ConvertError::Timeout { seconds: self.limits.timeout.as_secs() });
        }
        Ok(())
    }
}

/// Converts one document. Synchronous: it may take until [`Limits::timeout`], so not for an async task;
/// [`convert_file`](crate::convert_file) wraps it.
///
/// # Errors
/// See [`ConvertError`]. Images, archives and binary files are [`ConvertError::Unsupported`].
pub fn convert_bytes(name: &str, bytes: &[u8], limits: &Limits) -> Result<Converted, ConvertError> {
    if bytes.len() as u64 > limits.max_input_bytes {
        return Err(ConvertError::TooLarge { size: bytes.len() as u64, limit: limits.max_input_bytes });
    }
    let kind = DocumentKind::detect(name, bytes);
    // The parsers of third parties may panic on damaged files; ours must not, and a property test says so.
    let run = AssertUnwindSafe(|| convert_kind(kind, bytes, Budget::new(limits)));
    let mut converted = worker::quiet_catch(run)
        .unwrap_or_else(|message| Err(ConvertError::Damaged { reason: format!("its reader failed: {message}") }))?;
    finish(&mut converted, limits);
    if let Some(promised) = DocumentKind::from_name(name)
        && promised != kind
        && promised.wants_companion()
    {
        converted.warnings.push(format!("named like a {} file, but it is {}", promised.label(), kind.label()));
    }
    Ok(converted)
}

fn convert_kind(kind: DocumentKind, bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    let needs_bytes = !matches!(kind, DocumentKind::Markdown | DocumentKind::Text | DocumentKind::Code);
    if bytes.is_empty() && needs_bytes {
        return Err(ConvertError::Damaged { reason: "it is empty".to_owned() });
    }
    if is_encrypted_package(bytes) {
        return Err(ConvertError::Encrypted);
    }
    let unsupported = |hint: &str| Err(ConvertError::Unsupported { kind, hint: hint.to_owned() });
    match kind {
        DocumentKind::Pdf => pdf::convert(bytes, budget),
        DocumentKind::Docx => office::docx::convert(bytes, budget),
        DocumentKind::Pptx => office::pptx::convert(bytes, budget),
        DocumentKind::Xlsx => office::xlsx::convert(bytes, budget),
        DocumentKind::Epub => epub::convert(bytes, budget),
        DocumentKind::Html => html::convert(bytes),
        DocumentKind::Csv => csv_table::convert(bytes, budget.limits),
        DocumentKind::Markdown | DocumentKind::Text | DocumentKind::Json | DocumentKind::Code => plain(kind, bytes),
        DocumentKind::Image => unsupported("it is kept as it is and can be looked at"),
        DocumentKind::OldOffice => unsupported("save it as .docx, .xlsx or .pptx and upload that file"),
        DocumentKind::Archive => unsupported("unpack it and upload the files inside"),
        DocumentKind::Binary => unsupported(""),
    }
}

/// Text is its own Markdown, in UTF-8 and without a byte order mark.
fn plain(kind: DocumentKind, bytes: &[u8]) -> Result<Converted, ConvertError> {
    let Some(decoded) = decode_text(bytes) else {
        return Err(ConvertError::Unsupported { kind: DocumentKind::Binary, hint: String::new() });
    };
    let mut converted = Converted::new(kind, decoded.text.replace("\r\n", "\n"));
    if decoded.lossy {
        converted.warnings.push(format!("some bytes are not valid {} and are shown as \u{FFFD}", decoded.encoding));
    }
    Ok(converted)
}

fn finish(converted: &mut Converted, limits: &Limits) {
    // Text the user wrote is not reformatted; what a reader made is.
    if converted.kind.wants_companion() {
        converted.markdown = tidy(&converted.markdown);
    }
    if let Some((at, _)) = converted.markdown.char_indices().nth(limits.max_output_chars) {
        let cut = converted.markdown[..at].rfind('\n').unwrap_or(at);
        converted.markdown.truncate(cut);
        converted.markdown.push_str("\n\n[cut here: the document is longer than the limit]\n");
        converted.warnings.push(format!("the text was cut after {} characters", limits.max_output_chars));
    }
    converted.title = converted
        .title
        .take()
        .map(|title| one_line(&title))
        .filter(|title| !title.is_empty() && title.chars().count() <= 300)
        .or_else(|| crate::outline(&converted.markdown).entries.into_iter().next().map(|entry| entry.title));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_kept_as_it_is_but_for_its_encoding() {
        let bytes: Vec<u8> = "\u{FEFF}Größe\r\n  indented\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let converted = convert_bytes("a.txt", &bytes, &Limits::default()).unwrap();
        assert_eq!(converted.markdown, "Größe\n  indented\n");
        assert_eq!(converted.kind, DocumentKind::Text);
    }

    #[test]
    fn a_long_text_is_cut_at_a_line_and_says_so() {
        let limits = Limits { max_output_chars: 7, ..Limits::default() };
        let converted = convert_bytes("a.md", "# 王丽\nabc\ndef\n".as_bytes(), &limits).unwrap();
        assert_eq!(converted.markdown, "# 王丽\n\n[cut here: the document is longer than the limit]\n");
        assert_eq!(converted.warnings, ["the text was cut after 7 characters"]);
        assert_eq!(converted.title.as_deref(), Some("王丽"));
    }

    #[test]
    fn too_large_empty_and_unreadable_files_say_what_to_do() {
        let limits = Limits { max_input_bytes: 2 << 20, ..Limits::default() };
        let message = |name: &str, bytes: &[u8]| convert_bytes(name, bytes, &limits).unwrap_err().to_string();
        assert_eq!(
            message("a.txt", &vec![b'a'; (2 << 20) + 1]),
            "the file is 2 MiB and the limit is 2 MiB: split it into smaller files"
        );
        assert!(message("a.pdf", b"").contains("it is empty"));
        assert!(message("a.doc", &crate::kind::OLE_MAGIC).contains("save it as .docx"));
        assert_eq!(message("a.bin", b"\0\x01\x02"), "no text can be taken from binary files");
    }

    #[test]
    fn a_file_with_another_files_name_is_read_for_what_it_is() {
        let converted = convert_bytes("a.pdf", b"only text", &Limits::default()).unwrap();
        assert_eq!(converted.warnings, ["named like a PDF file, but it is text"]);
    }
}
