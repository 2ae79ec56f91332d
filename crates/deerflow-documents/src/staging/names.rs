//! Names of staged files.

use unicode_normalization::UnicodeNormalization;

/// The longest name a Linux file system takes, in bytes.
const MAX_BYTES: usize = 255;

/// The name a file is staged under: NFC, base name only, no control characters, at most 255 bytes with its extension
/// kept. `None` when nothing usable is left. Brackets, quotes, commas, percent signs and leading dashes stay.
#[must_use]
pub fn safe_filename(name: &str) -> Option<String> {
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let clean: String = base.nfc().filter(|character| !is_unsafe(*character)).collect();
    let clean = clean.trim();
    if clean.is_empty() || clean.chars().all(|character| character == '.') {
        return None;
    }
    // Our own part files are not shown to anybody; a user's file must not pass for one.
    let clean = if is_part_name(clean) { format!("_{clean}") } else { clean.to_owned() };
    Some(with_suffix(&clean, ""))
}

/// Line ends and other control characters would break listings and headers; direction marks make `gpj.exe` of `exe.jpg`.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_part_name(name: &str) -> bool {
    name.starts_with(".upload-") && name.ends_with(".part")
}

/// The first of `name`, `name_1`, `name_2`… (before the extension) that is not taken.
#[must_use]
pub fn unique_name(name: &str, mut is_taken: impl FnMut(&str) -> bool) -> String {
    candidates(name).find(|candidate| !is_taken(candidate)).unwrap_or_else(|| name.to_owned())
}

/// `a.txt`, `a_1.txt`, `a_2.txt`… without end.
pub(super) fn candidates(name: &str) -> impl Iterator<Item = String> + '_ {
    (0_u64..).map(move |count| if count == 0 { name.to_owned() } else { with_suffix(name, &format!("_{count}")) })
}

/// `suffix` before the extension, the stem cut at a character so that the whole fits.
fn with_suffix(name: &str, suffix: &str) -> String {
    let (stem, extension) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= 32 => name.split_at(at),
        _ => (name, ""),
    };
    let room = MAX_BYTES.saturating_sub(suffix.len() + extension.len());
    let mut end = stem.len().min(room);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}{extension}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decomposed_names_are_composed_and_odd_but_legal_characters_stay() {
        assert_eq!(safe_filename("Cafe\u{301} bericht.pdf").as_deref(), Some("Café bericht.pdf"));
        for name in
            ["photo (1).png", "a \"b\", 'c'.txt", "100%.csv", "-rf.txt", "[x]{y}.md", "测试.pdf", ".env", "a;b&c.txt"]
        {
            assert_eq!(safe_filename(name).as_deref(), Some(name));
        }
    }

    #[test]
    fn folders_control_characters_and_direction_marks_go() {
        assert_eq!(safe_filename("../../etc/passwd").as_deref(), Some("passwd"));
        assert_eq!(safe_filename("C:\\x\\a.txt").as_deref(), Some("a.txt"));
        assert_eq!(safe_filename("a\r\nb\u{202E}.txt").as_deref(), Some("ab.txt"));
        assert_eq!(safe_filename(".upload-1.part").as_deref(), Some("_.upload-1.part"));
        for name in ["", ".", "..", "  ", "/", "\u{7}"] {
            assert_eq!(safe_filename(name), None, "{name:?}");
        }
    }

    #[test]
    fn suffixes_come_before_the_extension() {
        let taken = ["a.tar.gz", "a.tar_1.gz", ".env", "x"];
        assert_eq!(unique_name("a.tar.gz", |name| taken.contains(&name)), "a.tar_2.gz");
        assert_eq!(unique_name(".env", |name| taken.contains(&name)), ".env_1");
        assert_eq!(unique_name("x", |name| taken.contains(&name)), "x_1");
    }

    proptest! {
        #[test]
        fn names_are_plain_base_names_that_fit(name in "\\PC{0,300}", count in 0_usize..3) {
            if let Some(safe) = safe_filename(&name) {
                let unique = candidates(&safe).nth(count).unwrap();
                prop_assert!(unique.len() <= 255 && !unique.is_empty());
                prop_assert!(!unique.contains('/') && unique != "." && unique != "..");
                prop_assert_eq!(safe_filename(&safe), Some(safe));
            }
        }
    }
}
