//! Scripts named in the conversation: `[[script:NAME key=value …]]` in a message from the user.
//!
//! | name | what the model does |
//! |---|---|
//! | `plain` | answers with `tokens` tokens |
//! | `tools` | `n` rounds of `width` calls each (write_file, read_file, ls in turn, every path distinct), then answers |
//! | `shell` | `n` rounds of one `bash` call, then answers |
//! | `report` | writes outputs/report.md of `body` tokens, presents it, then answers |
//! | `subagents` | `n` parallel `task` calls, each of them `tools n=rounds`, then answers |
//! | `loop` | the same call again and again, as long as tools are offered |
//! | `garbage`, `cut` | a body that is no SSE · an answer that breaks off |
//! | `status` | HTTP status `code` |
//! | `silence` | nothing for `ms`, then the connection drops |
//!
//! `tokens` is the length of answers, `delay_ms` the time between pieces, `ttft_ms` the time before the first, `dir` the
//! folder of outputs to work in. Unknown keys are left alone.
//!
//! The reply is a function of the messages alone, so a run that is killed and resumed gets the same replies. A request
//! without tools is auxiliary: a marker it merely quotes does not count, only one that begins its last user message.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Call, Request, Turn, call, request::text_of};

const OPENING: &str = "[[script:";

/// A parsed marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    name: String,
    pairs: Vec<(String, String)>,
}

impl Marker {
    /// The last marker in a text.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(OPENING)?;
        let (inside, _) = rest.split_once("]]")?;
        let mut words = inside.split_whitespace();
        let name = words.next()?.to_owned();
        let pairs = words.filter_map(|word| word.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Some(Self { name, pairs })
    }

    fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.pairs.iter().rfind(|(name, _)| name == key).map_or(default, |(_, value)| value)
    }

    fn number(&self, key: &str, default: u64) -> u64 {
        self.text(key, "").parse().unwrap_or(default)
    }

    fn size(&self, key: &str, default: u64) -> usize {
        usize::try_from(self.number(key, default)).unwrap_or(usize::MAX)
    }

    fn duration(&self, key: &str) -> Duration {
        Duration::from_millis(self.number(key, 0))
    }
}

/// What the marker in force wants of the model in its current round; `None` when there is no marker.
#[must_use]
pub fn marked_turn(request: &Request) -> Option<Turn> {
    if !request.offers_tools() && !request.last_user_text().trim_start().starts_with(OPENING) {
        return None;
    }
    let (marker, round) = current(request.messages())?;
    let turn = play(&marker, round, request.offers_tools());
    Some(
        turn.in_round(round)
            .label(marker.name.as_str())
            .first_token_after(marker.duration("ttft_ms"))
            .delay_per_token(marker.duration("delay_ms")),
    )
}

/// The marker in force and how many of its rounds have been played: the latest user message that carries one, and the
/// calls after it. A marker that was answered in full, with another message from the user since, is over.
fn current(messages: &[Value]) -> Option<(Marker, usize)> {
    let mut rounds = 0;
    let mut user_since = false;
    for message in messages.iter().rev() {
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        match message["role"].as_str() {
            // The round rides in the call ids, so that a history which was cut short in between does not start over.
            Some("assistant") if !calls.is_empty() => rounds = rounds.max(round_of(calls) + 1).max(1),
            Some("assistant") if user_since => return None,
            Some("user") => match Marker::find(&text_of(message)) {
                Some(marker) => return Some((marker, rounds)),
                None => user_since = true,
            },
            _ => {}
        }
    }
    None
}

/// `call_SEED_rROUND_INDEX`; 0 for an id of another make.
fn round_of(calls: &[Value]) -> usize {
    let id = calls[0]["id"].as_str().unwrap_or_default();
    let round = id.rsplit('_').nth(1).and_then(|part| part.strip_prefix('r'));
    round.and_then(|round| round.parse().ok()).unwrap_or(0)
}

fn play(marker: &Marker, round: usize, tools: bool) -> Turn {
    let answer = || Turn::text(words(marker.size("tokens", 50)));
    let rounds = marker.size("n", 3);
    match marker.name.as_str() {
        "garbage" => Turn::garbage(),
        "cut" => Turn::cut_after(words(marker.size("tokens", 50))),
        "silence" => Turn::silence(marker.duration("ms")),
        "status" => Turn::status(u16::try_from(marker.number("code", 500)).unwrap_or(500)),
        _ if !tools => answer(),
        "tools" if round < rounds => {
            Turn::calls((0..marker.size("width", 1)).map(|column| file_call(marker, round, column)))
        }
        "shell" if round < rounds => Turn::calls([call(
            "bash",
            json!({"description": "say which round it is", "command": format!("echo round {round}")}),
        )]),
        "report" if round == 0 => Turn::calls([write_report(marker.size("body", 400))]),
        "report" if round == 1 => Turn::calls([call("present_files", json!({"filepaths": [REPORT]}))]),
        "subagents" if round == 0 => Turn::calls((1..=rounds).map(|part| delegate(marker, part))),
        "loop" => Turn::calls([call("ls", json!({"description": "look again", "path": "/mnt/user-data/workspace"}))]),
        _ => answer(),
    }
}

const REPORT: &str = "/mnt/user-data/outputs/report.md";

fn write_report(tokens: usize) -> Call {
    let content = format!("# Report\n\n{}\n", words(tokens));
    call("write_file", json!({"description": "write the report", "path": REPORT, "content": content}))
}

/// Three rounds share a folder of their own, so that no guard against repetition has a reason to step in.
fn file_call(marker: &Marker, round: usize, column: usize) -> Call {
    let folder = format!("/mnt/user-data/outputs/{}/{}", marker.text("dir", "scripted"), round / 3);
    let path = match column {
        0 => format!("{folder}/note.md"),
        _ => format!("{folder}/note-{column}.md"),
    };
    match round % 3 {
        0 => call(
            "write_file",
            json!({"description": "note a result", "path": path, "content": format!("note {round}\n{}\n", words(40))}),
        ),
        1 => call("read_file", json!({"description": "check the note", "path": path})),
        _ => call("ls", json!({"description": format!("see what is there, {column}"), "path": folder})),
    }
}

fn delegate(marker: &Marker, part: usize) -> Call {
    let prompt = format!(
        "Do part {part} of the work. [[script:tools n={} tokens={} delay_ms={} ttft_ms={} dir=part{part}]]",
        marker.number("rounds", 3),
        marker.number("tokens", 50),
        marker.number("delay_ms", 0),
        marker.number("ttft_ms", 0),
    );
    call("task", json!({"description": format!("part {part}"), "prompt": prompt, "subagent_type": "general-purpose"}))
}

/// Text of so many tokens, the same every time, in sentences.
#[must_use]
pub fn words(tokens: usize) -> String {
    const WORDS: [&str; 12] = [
        "river", "stone", "cloud", "maple", "ember", "field", "harbor", "lantern", "meadow", "north", "orchard",
        "prairie",
    ];
    let mut text = String::new();
    for i in 0..tokens {
        text += match i {
            0 => "",
            _ if i % 25 == 0 => ".\n",
            _ => " ",
        };
        text += WORDS[i * 7 % WORDS.len()];
    }
    text
}

#[cfg(test)]
#[path = "marker_tests.rs"]
mod tests;
