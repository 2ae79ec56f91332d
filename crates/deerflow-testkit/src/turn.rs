//! One reply of the scripted model.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Gate;

/// A tool call the model makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub(crate) name: String,
    /// As it goes over the wire; not JSON if the script wants a model that writes broken arguments.
    pub(crate) arguments: String,
    pub(crate) id: Option<String>,
}

/// A call of `name` with JSON arguments.
#[must_use]
pub fn call(name: impl Into<String>, arguments: Value) -> Call {
    raw_call(name, arguments.to_string())
}

/// A call whose arguments are sent exactly as given, broken or not.
#[must_use]
pub fn raw_call(name: impl Into<String>, arguments: impl Into<String>) -> Call {
    Call { name: name.into(), arguments: arguments.into(), id: None }
}

impl Call {
    /// Sets the call id; without it the id is made from the request and the call's place.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// What the model does with one request: what it says, how fast, and how it fails.
#[derive(Debug, Clone)]
pub struct Turn {
    pub(crate) kind: Kind,
    /// The name under which `/stats` counts it.
    pub(crate) label: String,
    /// The round of a marker script; rides in the call ids.
    pub(crate) round: Option<usize>,
    pub(crate) reasoning: String,
    pub(crate) usage: Option<Value>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) first_token_after: Duration,
    pub(crate) delay_per_token: Duration,
    pub(crate) hold: Option<Hold>,
    pub(crate) interleaved: bool,
    pub(crate) cut: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Reply { text: String, calls: Vec<Call> },
    Garbage,
    Status { code: u16, retry_after: Option<u64>, error: Value },
    Silence(Duration),
    Raw(Vec<Bytes>),
}

/// Where in the reply a gate stands.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) gate: Gate,
    /// Pieces sent before it; `None`: before the response's head.
    pub(crate) after_tokens: Option<usize>,
}

impl Turn {
    fn of(kind: Kind, label: &str) -> Self {
        Self {
            kind,
            label: label.to_owned(),
            round: None,
            reasoning: String::new(),
            usage: None,
            finish_reason: None,
            first_token_after: Duration::ZERO,
            delay_per_token: Duration::ZERO,
            hold: None,
            interleaved: false,
            cut: false,
        }
    }

    /// An answer.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Kind::Reply { text: text.into(), calls: Vec::new() }, "text")
    }

    /// Tool calls without a word.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::text_and_calls("", calls)
    }

    /// Some words, then tool calls.
    #[must_use]
    pub fn text_and_calls(text: impl Into<String>, calls: impl IntoIterator<Item = Call>) -> Self {
        Self::of(Kind::Reply { text: text.into(), calls: calls.into_iter().collect() }, "calls")
    }

    /// An answer that breaks off: the pieces of `text`, half a frame more, then the connection is gone.
    #[must_use]
    pub fn cut_after(text: impl Into<String>) -> Self {
        let mut turn = Self::text(text).cut();
        turn.label = "cut".to_owned();
        turn
    }

    /// Status 200 and a body that is neither SSE nor JSON.
    #[must_use]
    pub fn garbage() -> Self {
        Self::of(Kind::Garbage, "garbage")
    }

    /// An HTTP error with an OpenAI-style error body.
    #[must_use]
    pub fn status(code: u16) -> Self {
        let error = json!({"message": format!("scripted status {code}"), "type": "scripted_error", "code": null});
        Self::of(Kind::Status { code, retry_after: None, error }, "status")
    }

    /// The refusal of a prompt that is too long, worded and coded as OpenAI does.
    #[must_use]
    pub fn context_length_exceeded() -> Self {
        let message = "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.";
        Self::status(400).error(json!({"message": message, "type": "invalid_request_error", "param": "messages",
                                       "code": "context_length_exceeded"}))
    }

    /// Accepts the request and says nothing for so long, then drops the connection.
    #[must_use]
    pub fn silence(duration: Duration) -> Self {
        Self::of(Kind::Silence(duration), "silence")
    }

    /// Status 200, `text/event-stream`, and these bytes as they are, each item written on its own. Items may split a
    /// frame, or a character, anywhere.
    #[must_use]
    pub fn raw_sse<B: Into<Bytes>>(writes: impl IntoIterator<Item = B>) -> Self {
        Self::of(Kind::Raw(writes.into_iter().map(Into::into).collect()), "raw")
    }

    /// Gives no sign of life until the gate is opened, then answers `released`. To stop at an exact point: wait for
    /// [`Gate::reached`], act, and open the gate or not.
    #[must_use]
    pub fn hang(gate: &Gate) -> Self {
        Self::text("released").hold(gate)
    }

    /// Waits at the gate before the response begins.
    #[must_use]
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold = Some(Hold { gate: gate.clone(), after_tokens: None });
        self
    }

    /// Waits at the gate when so many pieces have been streamed.
    #[must_use]
    pub fn hold_after(mut self, tokens: usize, gate: &Gate) -> Self {
        self.hold = Some(Hold { gate: gate.clone(), after_tokens: Some(tokens) });
        self
    }

    /// Breaks the reply off instead of finishing it.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    /// Thinks aloud first, in `reasoning_content`.
    #[must_use]
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.reasoning = text.into();
        self
    }

    /// The tokens reported; without it they are estimated. Reported to streams that ask (`stream_options`).
    #[must_use]
    pub fn usage(self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        self.usage_json(json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
                               "total_tokens": prompt_tokens + completion_tokens}))
    }

    /// The whole `usage` object, for details that [`Turn::usage`] has no word for.
    #[must_use]
    pub fn usage_json(mut self, usage: Value) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Overrides `stop` or `tool_calls`, as in `length`.
    #[must_use]
    pub fn finish_reason(mut self, reason: impl Into<String>) -> Self {
        self.finish_reason = Some(reason.into());
        self
    }

    /// Waits before the first piece.
    #[must_use]
    pub fn first_token_after(mut self, delay: Duration) -> Self {
        self.first_token_after = delay;
        self
    }

    /// Time between one piece and the next. The pieces keep to a schedule, so that a slow reader does not stretch it.
    #[must_use]
    pub fn delay_per_token(mut self, delay: Duration) -> Self {
        self.delay_per_token = delay;
        self
    }

    /// Streams the arguments of parallel calls in turn, a piece of each, instead of one call after the other.
    #[must_use]
    pub fn interleaved(mut self) -> Self {
        self.interleaved = true;
        self
    }

    /// Adds `retry-after`, in seconds, to a status turn; others are left as they are.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Kind::Status { retry_after, .. } = &mut self.kind {
            *retry_after = Some(seconds);
        }
        self
    }

    /// Replaces the `error` object of a status turn; others are left as they are.
    #[must_use]
    pub fn error(mut self, body: Value) -> Self {
        if let Kind::Status { error, .. } = &mut self.kind {
            *error = body;
        }
        self
    }

    /// Names the turn in `/stats`.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(crate) fn in_round(mut self, round: usize) -> Self {
        self.round = Some(round);
        self
    }
}
