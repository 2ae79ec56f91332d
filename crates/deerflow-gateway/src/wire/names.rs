//! File names in addresses and headers.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but what RFC 3986 lets stand.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as a part of an address.
pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// Value of `Content-Disposition`; `kind` is `inline` or `attachment`. Any name is safe in it.
pub(crate) fn disposition(kind: &str, name: &str) -> String {
    format!("{kind}; filename*=UTF-8''{}", encoded(name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_can_break_out_of_a_header() {
        assert_eq!(
            super::disposition("inline", "a \"b\"\r\nX: 测.txt"),
            "inline; filename*=UTF-8''a%20%22b%22%0D%0AX%3A%20%E6%B5%8B.txt"
        );
    }
}
