//! What was heard, without what differs from one installation to the next.

use super::driver::Heard;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

/// Numbers that say how long something took, or when it was.
const TIMES: [&str; 4] = ["modified", "turn_duration", "latency_ms", "duration_ms"];

/// Answers by the name of what was asked, in order.
#[derive(Debug, Default)]
pub(super) struct Transcript(Vec<(String, Heard)>);

impl Transcript {
    pub(super) fn note(&mut self, what: &str, heard: Heard) {
        self.0.push((what.to_owned(), heard));
    }
    /// What was heard to this.
    pub(super) fn of(&self, what: &str) -> Heard {
        self.0.iter().find(|(name, _)| name == what).map(|(_, heard)| heard.clone()).unwrap()
    }
    /// All of it as a text, ids and times replaced. Keys keep their order: that is part of what is compared.
    pub(super) fn text(&self, home: &Path) -> String {
        let mut ids = Ids { home: home.display().to_string(), known: HashMap::new() };
        let mut text = String::new();
        for (what, heard) in &self.0 {
            let mut heard = heard.clone();
            ids.replace(&mut heard);
            text.push_str(&format!("== {what}\n{heard:#}\n"));
        }
        text
    }
}

struct Ids {
    home: String,
    known: HashMap<String, usize>,
}

impl Ids {
    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.in_text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.replace(value)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (key, mut value) in old {
                    if TIMES.contains(&key.as_str()) && value.is_number() {
                        value = json!("<time>");
                    } else {
                        self.replace(&mut value);
                    }
                    fields.insert(self.in_text(&key), value);
                }
            }
            _ => {}
        }
    }

    /// The text with its ids numbered by first appearance, and times and the home by a word.
    fn in_text(&mut self, text: &str) -> String {
        let mut left = String::new();
        let text = text.replace(&self.home, "<home>");
        let mut word = String::new();
        for letter in text.chars().chain([' ']) {
            if letter.is_ascii_alphanumeric() || matches!(letter, '-' | ':' | '.' | '+') {
                word.push(letter);
                continue;
            }
            left.push_str(&self.word(&std::mem::take(&mut word)));
            left.push(letter);
        }
        left.pop();
        left
    }

    fn word(&mut self, word: &str) -> String {
        let bytes = word.as_bytes();
        if bytes.len() > 15 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[..4].iter().all(u8::is_ascii_digit) {
            return "<time>".to_owned();
        }
        // Eight hexadecimal digits or more, with or without dashes, at the end of any prefix.
        let begin = word.trim_end_matches(|letter: char| letter.is_ascii_hexdigit() || letter == '-').len();
        let (prefix, id) = word.split_at(begin);
        let digits = id.bytes().filter(u8::is_ascii_hexdigit).count();
        if digits < 8 || !id.bytes().any(|byte| byte.is_ascii_digit()) {
            return word.to_owned();
        }
        let next = self.known.len() + 1;
        let number = self.known.entry(id.to_owned()).or_insert(next);
        format!("{prefix}<id {number}>")
    }
}
