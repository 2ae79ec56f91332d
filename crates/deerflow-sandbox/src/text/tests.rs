use proptest::prelude::*;

use super::*;

fn utf16(text: &str, le: bool) -> Vec<u8> {
    text.encode_utf16().flat_map(|u| if le { u.to_le_bytes() } else { u.to_be_bytes() }).collect()
}

#[test]
fn br_116_byte_order_marks_and_utf16_are_text() {
    let bom8 = [b"\xEF\xBB\xBF".as_slice(), "name: é\n".as_bytes()].concat();
    let decoded = decode(&bom8).unwrap();
    assert_eq!((decoded.text.as_ref(), decoded.encoding, decoded.bom), ("name: é\n", TextEncoding::Utf8, true));
    for (mark, le, encoding) in
        [(b"\xFF\xFE", true, TextEncoding::Utf16Le), (b"\xFE\xFF", false, TextEncoding::Utf16Be)]
    {
        let bytes = [mark.as_slice(), &utf16("héllo 界\r\n", le)].concat();
        let decoded = decode(&bytes).unwrap();
        assert_eq!((decoded.text.as_ref(), decoded.encoding, decoded.bom), ("héllo 界\r\n", encoding, true));
        assert_eq!(encode(&decoded.text, encoding, true).unwrap(), bytes);
    }
    let bare = utf16("plain western text\n", true);
    assert_eq!(decode(&bare).unwrap().encoding, TextEncoding::Utf16Le);
}

#[test]
fn legacy_text_round_trips() {
    let bytes = b"caf\xe9 cr\xe8me br\xfbl\xe9e, d\xe9j\xe0 vu\n".to_vec();
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.text, "café crème brûlée, déjà vu\n");
    assert_eq!(encode(&decoded.text, decoded.encoding, decoded.bom).unwrap(), bytes);
    assert_eq!(encode("界", decoded.encoding, false), None);
}

#[test]
fn binaries_are_not_text() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
    assert_eq!(decode(png), None);
    assert_eq!(binary_kind(png), "image/png");
    assert_eq!(decode(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"), None);
    assert_eq!(decode(&(0..=255).collect::<Vec<u8>>()), None);
    assert_eq!(decode(b"a\0b"), None);
}

#[test]
fn line_endings_are_told_apart() {
    assert_eq!(line_ending("a"), LineEnding::None);
    assert_eq!(line_ending("a\nb\n"), LineEnding::Lf);
    assert_eq!(line_ending("a\r\nb\r\n"), LineEnding::CrLf);
    assert_eq!(line_ending("a\r\nb\n"), LineEnding::Mixed);
}

proptest! {
    #[test]
    fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn utf8_text_is_returned_as_it_is(text in "[^\u{0}\u{feff}]{0,60}") {
        let decoded = decode(text.as_bytes()).unwrap();
        prop_assert_eq!(decoded.text.as_ref(), text.as_str());
        prop_assert_eq!(encode(&decoded.text, decoded.encoding, decoded.bom).unwrap(), text.as_bytes());
    }
}
