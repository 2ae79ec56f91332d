//! Repairs font dictionaries that the interpreter would panic on or misread.

use std::fmt::Write as _;

use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

/// Widest `first last width` range expanded in a CID width table.
const MAX_WIDTH_RANGE: i64 = 0x1_0000;

/// Repairs every font of the document.
pub(super) fn repair(document: &mut Document) {
    let is_font = |object: &Object| {
        let font =
            |dictionary: &Dictionary| dictionary.get(b"Type").and_then(Object::as_name).is_ok_and(|n| n == b"Font");
        object.as_dict().is_ok_and(font)
    };
    let fonts: Vec<ObjectId> =
        document.objects.iter().filter(|(_, object)| is_font(object)).map(|(id, _)| *id).collect();
    for id in fonts {
        let Ok(font) = document.get_dictionary(id).cloned() else { continue };
        let subtype = font.get(b"Subtype").and_then(Object::as_name).map(<[u8]>::to_vec).unwrap_or_default();
        let repaired = match subtype.as_slice() {
            b"Type0" => composite(document, font),
            b"CIDFontType0" | b"CIDFontType2" => continue,
            _ => simple(document, font),
        };
        document.objects.insert(id, Object::Dictionary(repaired));
    }
}

/// Single-byte fonts: only known encodings, as many widths as codes.
fn simple(document: &Document, mut font: Dictionary) -> Dictionary {
    if !matches!(font.get(b"BaseFont"), Ok(Object::Name(_))) {
        font.set("BaseFont", Object::Name(b"Helvetica".to_vec()));
    }
    let encoding =
        font.get(b"Encoding").ok().and_then(|object| document.dereference(object).ok()).map(|(_, o)| o.clone());
    match encoding {
        Some(Object::Name(name)) if is_known_encoding(&name) => {}
        Some(Object::Dictionary(mut encoding)) => {
            if !encoding.get(b"BaseEncoding").and_then(Object::as_name).is_ok_and(is_known_encoding) {
                encoding.remove(b"BaseEncoding");
            }
            font.set("Encoding", encoding);
        }
        _ => {
            font.remove(b"Encoding");
        }
    }
    drop_named_to_unicode(document, &mut font);
    let first = font.get(b"FirstChar").and_then(Object::as_i64);
    let widths =
        font.get(b"Widths").ok().and_then(|object| document.dereference(object).ok()?.1.as_array().ok().cloned());
    match (first, widths) {
        (Ok(first), Some(widths)) if (0..=255).contains(&first) && !widths.is_empty() => {
            let widths: Vec<Object> = widths.iter().map(|width| number(document, width)).collect();
            font.set("LastChar", first + widths.len() as i64 - 1);
            font.set("Widths", widths);
        }
        _ => {
            font.remove(b"Widths");
        }
    }
    font
}

fn is_known_encoding(name: &[u8]) -> bool {
    matches!(name, b"WinAnsiEncoding" | b"MacRomanEncoding" | b"MacExpertEncoding")
}

fn number(document: &Document, object: &Object) -> Object {
    match document.dereference(object) {
        Ok((_, value @ (Object::Integer(_) | Object::Real(_)))) => value.clone(),
        _ => Object::Integer(0),
    }
}

fn drop_named_to_unicode(document: &Document, font: &mut Dictionary) {
    let stream = font.get(b"ToUnicode").ok().and_then(|object| document.dereference(object).ok());
    if !matches!(stream, Some((_, Object::Stream(_)))) {
        font.remove(b"ToUnicode");
    }
}

/// Composite fonts: widths in the one form that is read right, predefined Unicode maps spelled out.
fn composite(document: &mut Document, mut font: Dictionary) -> Dictionary {
    if !matches!(font.get(b"BaseFont"), Ok(Object::Name(_))) {
        font.set("BaseFont", Object::Name(b"Unknown".to_vec()));
    }
    let descendant = font
        .get(b"DescendantFonts")
        .ok()
        .and_then(|object| document.dereference(object).ok()?.1.as_array().ok()?.first())
        .and_then(|object| document.dereference(object).ok()?.1.as_dict().ok())
        .cloned()
        .unwrap_or_else(Dictionary::new);
    let mut descendant = descendant;
    if !descendant
        .get(b"FontDescriptor")
        .ok()
        .is_some_and(|o| document.dereference(o).is_ok_and(|(_, o)| o.as_dict().is_ok()))
    {
        descendant.set("FontDescriptor", Dictionary::new());
    }
    if !matches!(descendant.get(b"DW"), Ok(Object::Integer(_))) {
        descendant.set("DW", 1000);
    }
    let widths =
        descendant.get(b"W").ok().and_then(|object| document.dereference(object).ok()?.1.as_array().ok().cloned());
    match widths {
        Some(widths) => descendant.set("W", flat_widths(document, &widths)),
        None => {
            descendant.remove(b"W");
        }
    }
    drop_named_to_unicode(document, &mut font);
    let encoding =
        font.get(b"Encoding").ok().and_then(|object| document.dereference(object).ok()).map(|(_, o)| o.clone());
    let name = match encoding {
        Some(Object::Name(name)) => String::from_utf8_lossy(&name).into_owned(),
        Some(Object::Stream(_)) => String::new(),
        _ => "Identity-H".to_owned(),
    };
    if !name.is_empty() && name != "Identity-H" && name != "Identity-V" {
        // Fonts of the East Asian collections without an own map: codes are Unicode already, or a legacy encoding.
        let map = if name.contains("UCS2") || name.contains("UTF16") { unicode_map() } else { legacy_map(&name) };
        if font.get(b"ToUnicode").is_err() {
            let id = document.add_object(Stream::new(Dictionary::new(), map.into_bytes()));
            font.set("ToUnicode", id);
        }
        // Widths are by glyph number, which only the collection's table could tell: half width for Latin, else full.
        descendant
            .set("W", Object::Array(vec![Object::Integer(0x20), Object::Array(vec![Object::Integer(500); 0x5F])]));
        font.set("Encoding", Object::Name(b"Identity-H".to_vec()));
    } else if name == "Identity-H" {
        font.set("Encoding", Object::Name(b"Identity-H".to_vec()));
    }
    let id = document.add_object(descendant);
    font.set("DescendantFonts", Object::Array(vec![Object::Reference(id)]));
    font
}

/// `first [w w w]` for every entry; `first last w` is what the interpreter misreads.
fn flat_widths(document: &Document, widths: &[Object]) -> Vec<Object> {
    let resolve = |object: &Object| document.dereference(object).map_or(Object::Null, |(_, object)| object.clone());
    let widths: Vec<Object> = widths.iter().map(resolve).collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at + 1 < widths.len() {
        let Ok(first) = widths[at].as_i64() else { break };
        match &widths[at + 1] {
            Object::Array(list) => {
                out.push(Object::Integer(first));
                out.push(Object::Array(list.iter().map(|width| number(document, width)).collect()));
                at += 2;
            }
            Object::Integer(last) => {
                let Some(width) = widths.get(at + 2) else { break };
                let count = usize::try_from((last - first + 1).clamp(0, MAX_WIDTH_RANGE)).unwrap_or(0);
                out.push(Object::Integer(first));
                out.push(Object::Array(vec![number(document, width); count]));
                at += 3;
            }
            _ => break,
        }
    }
    out
}

const MAP_HEAD: &str = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapName /X def\n/CMapType 2 def\n\
                        1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n";
const MAP_TAIL: &str = "endcmap\nend\nend\n";

/// Two-byte codes that are UTF-16 units.
fn unicode_map() -> String {
    let mut map = MAP_HEAD.to_owned();
    let rows: Vec<u32> = (0..=0xFF).filter(|high| !(0xD8..=0xDF).contains(high)).collect();
    for chunk in rows.chunks(100) {
        let _ = writeln!(map, "{} beginbfrange", chunk.len());
        for high in chunk {
            let _ = writeln!(map, "<{high:02X}00> <{high:02X}FF> <{high:02X}00>");
        }
        map.push_str("endbfrange\n");
    }
    map + MAP_TAIL
}

/// Two-byte codes of a legacy encoding, by the name of its predefined map. Single bytes cannot be told apart here.
fn legacy_map(name: &str) -> String {
    let encoding = if name.contains("RKSJ") {
        encoding_rs::SHIFT_JIS
    } else if name.contains("B5") || name.contains("ETen") {
        encoding_rs::BIG5
    } else if name.contains("KSC") {
        encoding_rs::EUC_KR
    } else if name.starts_with("EUC-H") || name.starts_with("EUC-V") {
        encoding_rs::EUC_JP
    } else {
        encoding_rs::GBK
    };
    let mut map = MAP_HEAD.to_owned();
    let mut lines = Vec::new();
    for code in 0x8140..=0xFEFE_u16 {
        let bytes = code.to_be_bytes();
        let (text, bad) = encoding.decode_without_bom_handling(&bytes);
        let mut characters = text.chars();
        if let (false, Some(character), None) = (bad, characters.next(), characters.next()) {
            let units: String = character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("{unit:04X}")).collect();
            lines.push(format!("<{code:04X}> <{units}>"));
        }
    }
    for chunk in lines.chunks(100) {
        let _ = writeln!(map, "{} beginbfchar\n{}\nendbfchar", chunk.len(), chunk.join("\n"));
    }
    map + MAP_TAIL
}
