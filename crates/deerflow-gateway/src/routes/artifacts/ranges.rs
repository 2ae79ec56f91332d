//! Ranges of bytes, as RFC 9110 §14 asks for them.

/// Most ranges that one request is given; with more, the whole is cheaper.
const MOST: usize = 16;

/// What a `Range` header comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ranges {
    /// The whole, since there is no header or it makes no sense.
    Whole,
    /// These, first byte and number of bytes, in the order asked for.
    Parts(Vec<(u64, u64)>),
    /// Nothing of what was asked for is there.
    Unsatisfiable,
}

/// Reads a `Range` header for a file of `size` bytes.
pub(super) fn read(header: Option<&str>, size: u64) -> Ranges {
    let Some(list) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else { return Ranges::Whole };
    let mut parts = Vec::new();
    for (count, one) in list.split(',').enumerate() {
        let Some((first, last)) = one.trim().split_once('-') else { return Ranges::Whole };
        if count >= MOST {
            return Ranges::Whole;
        }
        match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => {
                if first < size {
                    parts.push((first, last.min(size - 1) - first + 1));
                }
            }
            (Ok(first), Err(_)) if last.is_empty() => {
                if first < size {
                    parts.push((first, size - first));
                }
            }
            (Err(_), Ok(suffix)) if first.is_empty() => {
                let count = suffix.min(size);
                if count > 0 {
                    parts.push((size - count, count));
                }
            }
            _ => return Ranges::Whole,
        }
    }
    let asked: u64 = parts.iter().map(|(_, count)| count).sum();
    match parts.len() {
        0 => Ranges::Unsatisfiable,
        // Overlapping ranges would make an answer longer than the file.
        2.. if asked > size => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn ranges_are_cut_to_the_file() {
        let of = |header: &str| read(Some(header), 10);
        assert_eq!(of("bytes=0-3"), Ranges::Parts(vec![(0, 4)]));
        assert_eq!(of("bytes=8-1048575"), Ranges::Parts(vec![(8, 2)]));
        assert_eq!(of("bytes=7-"), Ranges::Parts(vec![(7, 3)]));
        assert_eq!(of("bytes=-4"), Ranges::Parts(vec![(6, 4)]));
        assert_eq!(of("bytes=-40"), Ranges::Parts(vec![(0, 10)]));
        assert_eq!(of("bytes=0-1, 20-30, 4-5"), Ranges::Parts(vec![(0, 2), (4, 2)]));
        for nothing in ["bytes=10-", "bytes=10-20,30-", "bytes=-0"] {
            assert_eq!(of(nothing), Ranges::Unsatisfiable, "{nothing}");
        }
        for whole in ["items=0-1", "bytes=", "bytes=a-b", "bytes=5-2", "bytes=0-9,0-9", "bytes=1--2"] {
            assert_eq!(of(whole), Ranges::Whole, "{whole}");
        }
        assert_eq!(of(&format!("bytes={}0-1", "0-0,".repeat(20))), Ranges::Whole);
        assert_eq!(read(Some("bytes=0-1048575"), 0), Ranges::Unsatisfiable);
        assert_eq!(read(None, 10), Ranges::Whole);
    }
}
