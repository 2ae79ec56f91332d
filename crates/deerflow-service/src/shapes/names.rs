//! File names in addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but what RFC 3986 lets stand.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as a part of an address.
#[must_use]
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}
