//! The estimate for text, by character class.
//!
//! The weights are hundredths of a token. They follow what byte-pair vocabularies of about 200 000 entries do to prose, code
//! and CJK text: a short word with the space before it is one token, digits go in threes, an ideograph is about three
//! quarters of a token.

/// Hundredths of a token.
const TOKEN: u64 = 100;
/// Letters of a word that one token covers.
const WORD_START: u32 = 6;
/// Each letter after that.
const WORD_REST: u64 = 22;
/// A letter of another alphabet (Cyrillic, Greek, Arabic, accented Latin).
const OTHER_LETTER: u64 = 40;
const CJK: u64 = 75;
const EMOJI: u64 = 200;
const PUNCTUATION: u64 = 60;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Start,
    Lower,
    Upper,
    Digit,
    Space,
    Line,
    Punctuation(char),
    Other,
}

/// Adds up the estimate one character at a time. It never goes down.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    hundredths: u64,
    last: Class,
    run: u32,
}

impl Scanner {
    /// Takes one character in.
    pub fn push(&mut self, c: char) {
        let class = classify(c);
        let joins = match (self.last, class) {
            // `Word` is one word, `wordWord` are two.
            (Class::Lower | Class::Upper, Class::Lower) | (Class::Upper, Class::Upper) => true,
            (last, class) => last == class && class != Class::Start,
        };
        self.run = if joins { self.run.saturating_add(1) } else { 1 };
        let weight = match class {
            Class::Lower | Class::Upper if self.run == 1 => TOKEN,
            Class::Lower | Class::Upper if self.run <= WORD_START => 0,
            Class::Lower | Class::Upper => WORD_REST,
            Class::Digit if self.run % 3 == 1 => TOKEN,
            Class::Digit => 0,
            // One space belongs to the word after it; an indentation is a token.
            Class::Space => {
                if self.run % 16 == 2 {
                    TOKEN
                } else {
                    0
                }
            }
            Class::Line => {
                if self.run == 1 {
                    TOKEN / 2
                } else {
                    10
                }
            }
            // Rules such as `-----` are cheap.
            Class::Punctuation(_) if self.run > 1 => 15,
            Class::Punctuation(_) => PUNCTUATION,
            Class::Other | Class::Start => weigh(c),
        };
        self.hundredths += weight;
        self.last = class;
    }
    /// Takes a text in.
    pub fn push_str(&mut self, text: &str) {
        text.chars().for_each(|c| self.push(c));
    }
    /// The estimate so far, rounded up.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.hundredths.div_ceil(TOKEN)
    }
}

fn classify(c: char) -> Class {
    match c {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        ' ' | '\t' => Class::Space,
        '\n' | '\r' => Class::Line,
        '!'..='~' => Class::Punctuation(c),
        _ => Class::Other,
    }
}

fn weigh(c: char) -> u64 {
    match u32::from(c) {
        // Hangul, kana, ideographs, their punctuation and full-width forms.
        0x1100..=0x11FF | 0x2E80..=0x9FFF | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF => {
            CJK
        }
        0x20000..=0x3FFFF => 2 * TOKEN,
        // Joiners and variation selectors of emoji.
        0x200B..=0x200F | 0xFE00..=0xFE0F => TOKEN,
        0x2190..=0x2BFF => TOKEN,
        0x1F000..=0x1FAFF => EMOJI,
        // Thai, Lao, Tibetan, Burmese, Khmer and the scripts of India: several bytes, few merges.
        0x0900..=0x109F | 0x1780..=0x17FF => 55,
        0x00..=0x1F | 0x7F..=0xA0 => TOKEN,
        0xA1..=0x07FF | 0x1E00..=0x1FFF | 0x2000..=0x206F => OTHER_LETTER,
        _ => TOKEN,
    }
}

/// The estimate for a text, in tokens.
#[must_use]
pub fn text_tokens(text: &str) -> u64 {
    let mut scanner = Scanner::default();
    scanner.push_str(text);
    scanner.tokens()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real counts of the o200k vocabulary; an estimate has to be within the given share of them.
    #[track_caller]
    fn near(text: &str, real: u64, tolerance: f64) {
        let got = text_tokens(text);
        let off = (got as f64 - real as f64).abs() / real as f64;
        assert!(off <= tolerance, "estimated {got}, real {real}: {text}");
    }

    #[test]
    fn english_prose() {
        near("The quick brown fox jumps over the lazy dog. It was not amused, and said so.", 18, 0.35);
        near(
            "Summarisation replaces the oldest messages of a conversation with a short text, so that the rest fits into the \
             context window of the model again.",
            27,
            0.35,
        );
    }

    /// BR-201
    #[test]
    fn cjk_is_not_counted_as_four_characters_a_token() {
        let text = "研究人员发现,这种新材料在高温下仍然保持稳定,可以用于制造下一代电池。".repeat(20);
        let characters = text.chars().count() as u64;
        let tokens = text_tokens(&text);
        assert!(tokens * 2 > characters, "{tokens} tokens for {characters} characters is far too few");
        assert!(tokens * 10 < characters * 12, "{tokens} tokens for {characters} characters is too many");
        assert!(text_tokens("こんにちは世界") >= 4);
        assert!(text_tokens("안녕하세요 세계") >= 4);
    }

    #[test]
    fn code_numbers_and_rules() {
        near("fn main() {\n    println!(\"{}\", 1 + 2);\n}\n", 16, 0.4);
        near("1234567890", 4, 0.01);
        assert!(text_tokens(&"-".repeat(80)) < 20);
        assert!(text_tokens(&" ".repeat(64)) < 8);
        let base64 = "aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0".repeat(10);
        assert!(text_tokens(&base64) > base64.len() as u64 / 3, "{}", text_tokens(&base64));
    }

    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(text_tokens(""), 0);
    }
}
