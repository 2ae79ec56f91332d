//! Decompression bombs in PDFs, found before anything inflates a stream for real.

use std::io::Read;

use flate2::read::ZlibDecoder;
use pdf_extract::{Document, Object, Stream};

use crate::error::{ConvertError, human_size};
use crate::limits::Limits;

/// LZW's highest expansion, rounded up.
const LZW_RATIO: u64 = 1400;

/// Object and cross-reference streams are inflated while the file loads: their sum is measured from the raw bytes.
pub(super) fn object_streams(bytes: &[u8], limits: &Limits) -> Result<(), ConvertError> {
    let mut left = limits.max_inflated_bytes;
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], b"stream") {
        let keyword = at + found;
        at = keyword + 6;
        if bytes[..keyword].ends_with(b"end") {
            continue;
        }
        let head = &bytes[keyword.saturating_sub(512)..keyword];
        if find(head, b"/ObjStm").is_none() && find(head, b"/XRef").is_none() {
            continue;
        }
        let data = &bytes[at..];
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        left = left.checked_sub(inflated(data, left)).ok_or_else(|| bomb(limits))?;
    }
    Ok(())
}

/// Every other stream but pictures is measured once loaded and decrypted. Streams packed in an unusual way that could
/// hide their size are emptied, with a warning.
pub(super) fn streams(document: &mut Document, limits: &Limits) -> Result<Vec<String>, ConvertError> {
    let mut left = limits.max_inflated_bytes;
    let mut dropped = 0_usize;
    for object in document.objects.values_mut() {
        let Object::Stream(stream) = object else { continue };
        if is_image(stream) {
            continue;
        }
        let filters: Vec<Vec<u8>> =
            stream.filters().map(|filters| filters.into_iter().map(<[u8]>::to_vec).collect()).unwrap_or_default();
        let packers = filters.iter().filter(|name| matches!(name.as_slice(), b"FlateDecode" | b"LZWDecode")).count();
        let size = stream.content.len() as u64;
        let first = filters.first().map(Vec::as_slice);
        let hidden = packers > 1
            || (packers == 1 && filters.len() > 1 && size > (1 << 20))
            || (first == Some(b"LZWDecode") && size * LZW_RATIO > limits.max_inflated_bytes);
        if hidden {
            stream.content.clear();
            stream.dict.remove(b"Filter");
            dropped += 1;
        } else if first == Some(b"FlateDecode") {
            left = left.checked_sub(inflated(&stream.content, left)).ok_or_else(|| bomb(limits))?;
        }
    }
    let warning = || format!("{dropped} part(s) packed in an unusual way were left out");
    Ok(if dropped > 0 { vec![warning()] } else { Vec::new() })
}

pub(super) fn is_image(stream: &Stream) -> bool {
    stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image")
}

fn bomb(limits: &Limits) -> ConvertError {
    ConvertError::Bomb { reason: format!("over {}", human_size(limits.max_inflated_bytes)) }
}

/// How many bytes `data` inflates to; `left + 1` when that is more than `left`. Damaged data counts as far as it goes.
fn inflated(data: &[u8], left: u64) -> u64 {
    let mut decoder = ZlibDecoder::new(data);
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0_u64;
    while let Ok(read) = decoder.read(&mut buffer) {
        total += read as u64;
        if read == 0 || total > left {
            break;
        }
    }
    total
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = 0;
    while let Some(found) = haystack[at..].iter().position(|byte| *byte == first) {
        at += found;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}
