//! What a file is, by its bytes first and its name second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::encoding::decode_text;

/// The kinds of file this crate tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// Portable Document Format.
    Pdf,
    /// Word (`.docx`, `.docm`).
    Docx,
    /// Excel (`.xlsx`, `.xlsm`, `.xls`).
    Xlsx,
    /// PowerPoint (`.pptx`, `.pptm`).
    Pptx,
    /// Separated values: comma, tab, semicolon, pipe.
    Csv,
    /// A web page.
    Html,
    /// An e-book.
    Epub,
    /// Markdown.
    Markdown,
    /// Plain text in any encoding.
    Text,
    /// JSON, JSON lines, notebooks.
    Json,
    /// Source code and configuration.
    Code,
    /// A picture.
    Image,
    /// Word or PowerPoint before 2007, and OpenDocument: recognised, not read.
    OldOffice,
    /// An archive that is no document.
    Archive,
    /// Anything else.
    Binary,
}

impl DocumentKind {
    /// What `bytes` are. The bytes decide wherever they can; the name chooses among kinds of text and of broken files.
    #[must_use]
    pub fn detect(name: &str, bytes: &[u8]) -> Self {
        let named = Self::from_name(name);
        if bytes.iter().take(1024).copied().collect::<Vec<_>>().windows(5).any(|window| window == b"%PDF-") {
            return Self::Pdf;
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return zip_kind(bytes).unwrap_or(match named {
                Some(kind @ (Self::Docx | Self::Xlsx | Self::Pptx | Self::Epub)) => kind,
                _ => Self::Archive,
            });
        }
        if bytes.starts_with(&OLE_MAGIC) {
            return ole_kind(bytes, named);
        }
        if named == Some(Self::Image) && name.to_ascii_lowercase().ends_with(".svg") {
            return Self::Image;
        }
        // Some picture magics are two letters long ("BM"): text wins over them.
        let text = decode_text(bytes);
        if text.is_none() && infer::is_image(bytes) {
            return Self::Image;
        }
        if text.is_none() && infer::is_archive(bytes) {
            return Self::Archive;
        }
        let Some(text) = text else {
            return match named {
                // A name that promises a document, and bytes that are none: the reader will say it is damaged.
                Some(kind @ (Self::Pdf | Self::Docx | Self::Xlsx | Self::Pptx | Self::Epub)) => kind,
                _ => Self::Binary,
            };
        };
        if text.text.trim().is_empty() {
            return named.unwrap_or(Self::Text);
        }
        match named {
            Some(kind @ (Self::Csv | Self::Html | Self::Markdown | Self::Text | Self::Json | Self::Code)) => kind,
            _ if looks_like_html(&text.text) => Self::Html,
            _ => Self::Text,
        }
    }

    /// The kind a file name promises, or `None` for an unknown or missing extension.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "pdf" => Self::Pdf,
            "docx" | "docm" | "dotx" => Self::Docx,
            "xlsx" | "xlsm" | "xltx" | "xls" => Self::Xlsx,
            "pptx" | "pptm" | "ppsx" => Self::Pptx,
            "csv" | "tsv" | "tab" => Self::Csv,
            "html" | "htm" | "xhtml" => Self::Html,
            "epub" => Self::Epub,
            "md" | "markdown" | "mdx" => Self::Markdown,
            "txt" | "text" | "log" | "rst" | "adoc" | "org" => Self::Text,
            "json" | "jsonl" | "ndjson" | "ipynb" | "geojson" => Self::Json,
            "png" | "jpg" | "jpeg" | "gif" | "webp" | "bmp" | "tif" | "tiff" | "ico" | "svg" | "heic" | "avif" => {
                Self::Image
            }
            "doc" | "dot" | "ppt" | "pps" | "odt" | "odp" | "ods" | "xlsb" => Self::OldOffice,
            "zip" | "tar" | "gz" | "tgz" | "bz2" | "xz" | "7z" | "rar" | "zst" => Self::Archive,
            "py" | "rs" | "js" | "mjs" | "ts" | "tsx" | "jsx" | "java" | "c" | "h" | "cc" | "cpp" | "hpp" | "cs"
            | "go" | "rb" | "php" | "swift" | "kt" | "scala" | "sh" | "bash" | "zsh" | "ps1" | "sql" | "r" | "lua"
            | "pl" | "css" | "scss" | "vue" | "xml" | "yaml" | "yml" | "toml" | "ini" | "cfg" | "conf" | "env"
            | "tex" | "bib" | "diff" | "patch" | "proto" | "graphql" | "ex" | "exs" | "hs" | "clj" | "dart" | "m" => {
                Self::Code
            }
            _ => return None,
        })
    }

    /// Whether an upload of this kind gets a Markdown companion. Text, Markdown and code are read as they are.
    #[must_use]
    pub fn wants_companion(self) -> bool {
        matches!(self, Self::Pdf | Self::Docx | Self::Xlsx | Self::Pptx | Self::Csv | Self::Html | Self::Epub)
    }

    /// The name used in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pdf => "PDF",
            Self::Docx => "Word",
            Self::Xlsx => "Excel",
            Self::Pptx => "PowerPoint",
            Self::Csv => "CSV",
            Self::Html => "HTML",
            Self::Epub => "EPUB",
            Self::Markdown => "Markdown",
            Self::Text => "text",
            Self::Json => "JSON",
            Self::Code => "source code",
            Self::Image => "image",
            Self::OldOffice => "older Office and OpenDocument",
            Self::Archive => "archive",
            Self::Binary => "binary",
        }
    }
}

/// The first bytes of an OLE compound file: Office before 2007, and every encrypted Office document.
pub(crate) const OLE_MAGIC: [u8; 8] = [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1];

/// Looks for a name in a zip's directory without trusting the directory: names are stored plainly.
fn zip_kind(bytes: &[u8]) -> Option<DocumentKind> {
    let has = |name: &[u8]| contains(bytes, name);
    if bytes.get(30..).is_some_and(|rest| rest.starts_with(b"mimetypeapplication/epub+zip")) {
        return Some(DocumentKind::Epub);
    }
    if bytes.get(30..).is_some_and(|rest| rest.starts_with(b"mimetypeapplication/vnd.oasis.opendocument")) {
        return Some(DocumentKind::OldOffice);
    }
    if has(b"word/document") {
        return Some(DocumentKind::Docx);
    }
    if has(b"xl/workbook.bin") {
        return Some(DocumentKind::OldOffice);
    }
    if has(b"xl/workbook") {
        return Some(DocumentKind::Xlsx);
    }
    if has(b"ppt/presentation") {
        return Some(DocumentKind::Pptx);
    }
    has(b"META-INF/container.xml").then_some(DocumentKind::Epub)
}

fn ole_kind(bytes: &[u8], named: Option<DocumentKind>) -> DocumentKind {
    if is_encrypted_package(bytes) {
        return match named {
            Some(kind @ (DocumentKind::Docx | DocumentKind::Xlsx | DocumentKind::Pptx)) => kind,
            _ => DocumentKind::Docx,
        };
    }
    if contains(bytes, &utf16("Workbook")) || contains(bytes, &utf16("Book")) {
        return DocumentKind::Xlsx;
    }
    DocumentKind::OldOffice
}

/// An Office document under a password is an OLE file with this stream.
pub(crate) fn is_encrypted_package(bytes: &[u8]) -> bool {
    bytes.starts_with(&OLE_MAGIC) && contains(bytes, &utf16("EncryptedPackage"))
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(needle) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(256).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.contains("<head>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_over_the_name() {
        assert_eq!(DocumentKind::detect("report.docx", b"%PDF-1.7\n"), DocumentKind::Pdf);
        assert_eq!(DocumentKind::detect("page.doc", b"<html><body>x</body></html>"), DocumentKind::Html);
        assert_eq!(DocumentKind::detect("notes.pdf", b"just a text"), DocumentKind::Text);
        assert_eq!(DocumentKind::detect("photo.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"), DocumentKind::Image);
    }

    #[test]
    fn a_text_that_begins_like_a_bitmap_is_text() {
        assert_eq!(DocumentKind::detect("notes.txt", b"BMW sold 12 cars"), DocumentKind::Text);
    }

    #[test]
    fn the_name_decides_among_texts() {
        for (name, kind) in [
            ("a.csv", DocumentKind::Csv),
            ("a.MD", DocumentKind::Markdown),
            ("a.json", DocumentKind::Json),
            ("a.rs", DocumentKind::Code),
            ("README", DocumentKind::Text),
        ] {
            assert_eq!(DocumentKind::detect(name, b"a,b\n1,2\n"), kind, "{name}");
        }
    }

    #[test]
    fn a_broken_document_keeps_the_kind_its_name_promises() {
        assert_eq!(DocumentKind::detect("a.docx", b"PK\x03\x04 and then nothing"), DocumentKind::Docx);
        assert_eq!(DocumentKind::detect("a.zip", b"PK\x03\x04 and then nothing"), DocumentKind::Archive);
        assert_eq!(DocumentKind::detect("a.bin", b"\0\x01\x02\x03"), DocumentKind::Binary);
        assert_eq!(DocumentKind::detect("a.pdf", b""), DocumentKind::Pdf);
    }
}
