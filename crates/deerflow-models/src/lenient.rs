//! JSON as gateways send it, read where it can be.
//!
//! Gateways written in languages with UTF-16 strings cut replies inside a character: `"\ud83d"`, then `"\ude00"`. And a
//! number may be beyond what any type holds (`1e400`). Both are refused by a strict reader, and neither is worth a reply.

use serde_json::Value;

/// Reads the pieces of one reply. The halves of a character that was cut between two pieces are put together; half a
/// character without its counterpart becomes U+FFFD (nothing at the end of a text), a number beyond bounds `null`.
#[derive(Debug, Default)]
pub(crate) struct LenientJson {
    /// The first half of a character that the last piece ended in, as its escape (`\ud83d`).
    half: Option<String>,
}

impl LenientJson {
    /// The value of `text`; `None` when it is no JSON even with leniency.
    pub(crate) fn read(&mut self, text: &str) -> Option<Value> {
        let before = self.half.take();
        // Almost every piece is well-formed, and costs one reading.
        serde_json::from_str(text).ok().or_else(|| {
            let (mended, half) = mend(text, before.as_deref());
            let value = serde_json::from_str(&mended).ok()?;
            self.half = half;
            Some(value)
        })
    }
}

/// `text` without lone surrogates and numbers beyond bounds, and the half that its last string ends in.
fn mend(text: &str, before: Option<&str>) -> (String, Option<String>) {
    let mut mended = String::with_capacity(text.len() + 16);
    let mut half = None;
    let mut rest = text;
    let mut in_string = false;
    let mut at_start = false;
    while let Some(c) = rest.chars().next() {
        let first = std::mem::replace(&mut at_start, false);
        let taken = match c {
            '"' => {
                in_string = !in_string;
                at_start = in_string;
                1
            }
            '\\' if in_string => match surrogate(rest) {
                Some(Surrogate::High) if surrogate(&rest[6..]) == Some(Surrogate::Low) => 12,
                Some(Surrogate::High) if rest[6..].starts_with('"') => {
                    half = Some(rest[..6].to_owned());
                    rest = &rest[6..];
                    continue;
                }
                Some(Surrogate::Low) if first && before.is_some() => {
                    mended.push_str(before.unwrap_or_default());
                    6
                }
                Some(_) => {
                    mended.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[6..];
                    continue;
                }
                // The escaped character may be a quote or a backslash, which mean nothing then.
                None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            },
            '-' | '0'..='9' if !in_string => {
                let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
                let end = end.unwrap_or(rest.len());
                if rest[..end].parse::<f64>().is_ok_and(f64::is_infinite) {
                    mended.push_str("null");
                    rest = &rest[end..];
                    continue;
                }
                end
            }
            c => c.len_utf8(),
        };
        mended.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    (mended, half)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// The half of a character whose escape `text` starts with; it is six ASCII bytes long.
fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4).filter(|four| four.bytes().all(|b| b.is_ascii_hexdigit()))?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Surrogate::High),
        0xDC00..=0xDFFF => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(texts: &[&str]) -> Vec<Option<Value>> {
        let mut json = LenientJson::default();
        texts.iter().map(|text| json.read(text)).collect()
    }

    #[test]
    fn a_character_cut_between_two_pieces_is_put_together() {
        let pieces = read(&[r#"{"a":"x\ud83d","b":"y\ud83d"}"#, r#"{"a":"\ude00z","b":"\uDE00"}"#]);
        assert_eq!(pieces, [Some(json!({"a": "x", "b": "y"})), Some(json!({"a": "😀z", "b": "😀"}))]);
    }

    #[test]
    fn half_a_character_without_its_counterpart_is_replaced() {
        assert_eq!(
            read(&[r#"["\ud83d!", "\ude00", "\ud83d\ud83d\ude00", "\\ud83d\""]"#]),
            [Some(json!(["\u{fffd}!", "\u{fffd}", "\u{fffd}😀", "\\ud83d\""]))]
        );
        // A well-formed piece in between: the halves do not belong together.
        assert_eq!(read(&[r#"["\ud83d"]"#, "[]", r#"["\ude00"]"#])[2], Some(json!(["\u{fffd}"])));
    }

    #[test]
    fn a_number_beyond_bounds_is_null_and_everything_else_stays() {
        assert_eq!(
            read(&[r#"{"a":1e400,"b":[-1E+999,1e3],"c":"1e400"}"#]),
            [Some(json!({"a": null, "b": [null, 1e3], "c": "1e400"}))]
        );
        assert_eq!(read(&["{\"a\":", "", "\"\\", "\"\\ud83d", "\\ud83d", "1e400x"]), vec![None; 6]);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_is_well_formed_is_left_alone(text in ".{0,30}", cut in "[\"\\\\ud83e0\\-é{}:,1]{0,30}") {
            let quoted = json!({"k": [text, 1.5]}).to_string();
            prop_assert_eq!(mend(&quoted, None).0, quoted);
            read(&[&cut, &format!("\"{cut}\""), &cut]);
        }
    }
}
