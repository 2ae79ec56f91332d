//! Scripts from a file, for runs by hand.
//!
//! ```json
//! {"scripts": [{"when": "make a.md",
//!   "turns": [{"calls": [{"name": "write_file", "arguments": {"path": "/mnt/user-data/outputs/a.md", "content": "hi"}}]},
//!             {"text": "done", "usage": [10, 5]}]}]}
//! ```
//!
//! The first script whose `when` is part of the latest user message that any script knows is in force; it plays one turn
//! a round and repeats its last one. As with markers, the reply is a function of the messages alone.

use std::{io, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::Value;

use crate::{Call, Request, Turn, call, raw_call, request::text_of};

/// A parsed script file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptFile {
    scripts: Vec<Script>,
}

/// Why a script file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptFileError {
    /// It cannot be read.
    #[error("cannot read the script: {0}")]
    Read(#[from] io::Error),
    /// It is not JSON of the expected shape.
    #[error("the script is not valid: {0}")]
    Parse(#[from] serde_json::Error),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    when: String,
    turns: Vec<TurnSpec>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TurnSpec {
    text: String,
    reasoning: String,
    calls: Vec<CallSpec>,
    usage: Option<(u64, u64)>,
    finish_reason: Option<String>,
    delay_ms: u64,
    ttft_ms: u64,
    interleaved: bool,
    cut: bool,
    garbage: bool,
    silence_ms: Option<u64>,
    status: Option<u16>,
    retry_after: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSpec {
    name: String,
    /// A string is sent as it is, anything else as JSON.
    #[serde(default)]
    arguments: Value,
    id: Option<String>,
}

impl ScriptFile {
    /// Reads a script file.
    ///
    /// # Errors
    /// When it cannot be read or parsed.
    pub fn load(path: &Path) -> Result<Self, ScriptFileError> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    /// Parses a script.
    ///
    /// # Errors
    /// When it is not JSON of the expected shape.
    pub fn parse(text: &str) -> Result<Self, ScriptFileError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The turn for a request; `None` when no script knows it.
    #[must_use]
    pub fn turn(&self, request: &Request) -> Option<Turn> {
        let mut rounds = 0;
        for message in request.messages().iter().rev() {
            match message["role"].as_str() {
                Some("assistant") if message["tool_calls"].is_array() => rounds += 1,
                Some("user") => {
                    let text = text_of(message);
                    if let Some(script) = self.scripts.iter().find(|script| text.contains(&script.when)) {
                        let spec = script.turns.get(rounds).or(script.turns.last())?;
                        return Some(spec.turn().in_round(rounds).label(&script.when));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

impl TurnSpec {
    fn turn(&self) -> Turn {
        let mut turn = match (self.status, self.silence_ms) {
            (Some(code), _) => Turn::status(code),
            (_, Some(ms)) => Turn::silence(Duration::from_millis(ms)),
            _ if self.garbage => Turn::garbage(),
            _ => Turn::text_and_calls(&self.text, self.calls.iter().map(CallSpec::call)),
        };
        turn = turn
            .reasoning(&self.reasoning)
            .delay_per_token(Duration::from_millis(self.delay_ms))
            .first_token_after(Duration::from_millis(self.ttft_ms));
        if let Some((prompt, completion)) = self.usage {
            turn = turn.usage(prompt, completion);
        }
        if let Some(reason) = &self.finish_reason {
            turn = turn.finish_reason(reason);
        }
        if let Some(seconds) = self.retry_after {
            turn = turn.retry_after(seconds);
        }
        if self.interleaved {
            turn = turn.interleaved();
        }
        if self.cut { turn.cut() } else { turn }
    }
}

impl CallSpec {
    fn call(&self) -> Call {
        let made = match &self.arguments {
            Value::String(raw) => raw_call(&self.name, raw),
            Value::Null => raw_call(&self.name, "{}"),
            value => call(&self.name, value.clone()),
        };
        match &self.id {
            Some(id) => made.id(id),
            None => made,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::turn::Kind;

    #[test]
    fn a_script_plays_a_turn_a_round_and_repeats_its_last() {
        let file = ScriptFile::parse(
            r#"{"scripts": [{"when": "make", "turns": [{"calls": [{"name": "ls"}]}, {"text": "done", "usage": [10, 5]}]}]}"#,
        )
        .unwrap();
        let mut messages = vec![json!({"role": "user", "content": "make a.md"})];
        let mut texts = Vec::new();
        for _ in 0..3 {
            let turn = file.turn(&Request::of(json!({"messages": messages}))).unwrap();
            let Kind::Reply { text, calls } = turn.kind else { panic!("no reply") };
            texts.push(format!("{text}{}", calls.len()));
            messages.push(json!({"role": "assistant", "tool_calls": [{"id": "c"}]}));
        }
        assert_eq!(texts, ["1", "done0", "done0"]);
        assert!(file.turn(&Request::of(json!({"messages": [{"role": "user", "content": "other"}]}))).is_none());
    }

    #[test]
    fn a_misspelt_key_is_refused_by_name() {
        let error = ScriptFile::parse(r#"{"scripts": [{"when": "x", "turns": [{"txt": "a"}]}]}"#).unwrap_err();
        assert!(error.to_string().contains("txt"), "{error}");
    }
}
