//! A turn as bytes on the wire, and when to send them.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    Gate, Request,
    turn::{Call, Kind, Turn},
};

/// A fixed `created`, so that equal requests get equal bytes back.
const CREATED: u64 = 1_700_000_000;
/// Characters of arguments in one piece.
const ARGUMENT_PIECE: usize = 16;
const GARBAGE: &str = "<html><body>502 Bad Gateway</body></html>\ndata: {\"choices\": [{\"delta\"\n\n";

/// One step of playing a reply.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Not before so long after the start.
    At(Duration),
    Hold(Gate),
    Send(Bytes),
    /// The connection is dropped here.
    Break,
}

/// The body of a reply.
pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// Plans the body of a reply with status 200.
pub(crate) fn body(turn: &Turn, request: &Request) -> Body {
    let streamed = request.is_streamed();
    let content_type = if streamed { "text/event-stream" } else { "application/json" };
    let steps = match &turn.kind {
        Kind::Reply { text, calls } if streamed => stream_steps(turn, request, text, calls),
        Kind::Reply { text, calls } => whole_steps(turn, request, text, calls),
        Kind::Raw(writes) => {
            let steps = paced(turn, writes.iter().cloned());
            return Body { content_type: "text/event-stream", steps };
        }
        Kind::Silence(duration) => vec![Step::At(*duration), Step::Break],
        // A status has no body of this kind; its error goes out with the head.
        Kind::Garbage | Kind::Status { .. } => vec![Step::Send(Bytes::from_static(GARBAGE.as_bytes()))],
    };
    Body { content_type, steps }
}

/// The writes with the turn's pauses and its gate between them.
fn paced(turn: &Turn, writes: impl Iterator<Item = Bytes>) -> Vec<Step> {
    let mut steps = Vec::new();
    let hold = turn.hold.as_ref().and_then(|hold| Some((hold.after_tokens?, &hold.gate)));
    let mut sent = 0;
    for write in writes {
        if let Some((_, gate)) = hold.filter(|(after, _)| *after == sent) {
            steps.push(Step::Hold(gate.clone()));
        }
        let at = turn.first_token_after + turn.delay_per_token * u32::try_from(sent).unwrap_or(u32::MAX);
        if !at.is_zero() {
            steps.push(Step::At(at));
        }
        steps.push(Step::Send(write));
        sent += 1;
    }
    if let Some((_, gate)) = hold.filter(|(after, _)| *after >= sent) {
        steps.push(Step::Hold(gate.clone()));
    }
    steps
}

fn stream_steps(turn: &Turn, request: &Request, text: &str, calls: &[Call]) -> Vec<Step> {
    let seed = request.seed();
    let head = json!({"id": format!("chatcmpl-{seed:016x}"), "object": "chat.completion.chunk", "created": CREATED,
                      "model": request.model()});
    let frame = |choices: Value, usage: Option<Value>| {
        let mut chunk = head.clone();
        chunk["choices"] = choices;
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let delta =
        |delta: Value, finish: Value| frame(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), None);

    let mut deltas: Vec<Value> = pieces(&turn.reasoning).into_iter().map(|p| json!({"reasoning_content": p})).collect();
    deltas.extend(pieces(text).into_iter().map(|piece| json!({"content": piece})));
    deltas.extend(call_deltas(turn, seed, calls));
    match deltas.first_mut() {
        Some(first) => first["role"] = json!("assistant"),
        None => deltas.push(json!({"role": "assistant", "content": ""})),
    }
    let tokens = deltas.len();
    let mut steps = paced(turn, deltas.into_iter().map(|value| delta(value, Value::Null)));
    if turn.cut {
        let torn = delta(json!({"content": " and so"}), Value::Null);
        steps.push(Step::Send(torn.slice(..torn.len() / 2)));
        steps.push(Step::Break);
        return steps;
    }
    steps.push(Step::Send(delta(json!({}), json!(finish_reason(turn, calls)))));
    if request.wants_usage() {
        steps.push(Step::Send(frame(json!([]), Some(usage(turn, request, tokens)))));
    }
    steps.push(Step::Send(Bytes::from_static(b"data: [DONE]\n\n")));
    steps
}

fn whole_steps(turn: &Turn, request: &Request, text: &str, calls: &[Call]) -> Vec<Step> {
    let seed = request.seed();
    let mut message = json!({"role": "assistant", "content": if calls.is_empty() || !text.is_empty() { json!(text) } else { Value::Null }});
    if !turn.reasoning.is_empty() {
        message["reasoning_content"] = json!(turn.reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] =
            calls.iter().enumerate().map(|(i, c)| opening(turn, seed, i, c, &c.arguments)).collect();
    }
    let tokens = pieces(text).len() + calls.iter().map(|call| call.arguments.len().div_ceil(4)).sum::<usize>();
    let body = json!({
        "id": format!("chatcmpl-{seed:016x}"), "object": "chat.completion", "created": CREATED, "model": request.model(),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(turn, calls)}],
        "usage": usage(turn, request, tokens),
    });
    let body = Bytes::from(body.to_string());
    let last = turn.first_token_after + turn.delay_per_token * u32::try_from(tokens).unwrap_or(u32::MAX);
    let mut steps = vec![Step::At(last)];
    if turn.cut {
        steps.extend([Step::Send(body.slice(..body.len() / 2)), Step::Break]);
    } else {
        steps.push(Step::Send(body));
    }
    steps
}

/// A call's id and name come first, its arguments follow in pieces, as providers do it.
fn call_deltas(turn: &Turn, seed: u64, calls: &[Call]) -> Vec<Value> {
    let mut streams: Vec<std::vec::IntoIter<Value>> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let mut first = opening(turn, seed, index, call, "");
        first["index"] = json!(index);
        let mut deltas = vec![json!({"tool_calls": [first]})];
        let characters: Vec<char> = call.arguments.chars().collect();
        deltas.extend(characters.chunks(ARGUMENT_PIECE).map(
            |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": String::from_iter(piece)}}]}),
        ));
        streams.push(deltas.into_iter());
    }
    if !turn.interleaved {
        return streams.into_iter().flatten().collect();
    }
    let mut mixed = Vec::new();
    loop {
        let before = mixed.len();
        mixed.extend(streams.iter_mut().filter_map(Iterator::next));
        if mixed.len() == before {
            return mixed;
        }
    }
}

fn opening(turn: &Turn, seed: u64, index: usize, call: &Call, arguments: &str) -> Value {
    let id = call.id.clone().unwrap_or_else(|| match turn.round {
        Some(round) => format!("call_{seed:016x}_r{round}_{index}"),
        None => format!("call_{seed:016x}_{index}"),
    });
    let mut object = Map::new();
    object.insert("id".to_owned(), json!(id));
    object.insert("type".to_owned(), json!("function"));
    object.insert("function".to_owned(), json!({"name": call.name, "arguments": arguments}));
    Value::Object(object)
}

fn finish_reason(turn: &Turn, calls: &[Call]) -> String {
    let usual = if calls.is_empty() { "stop" } else { "tool_calls" };
    turn.finish_reason.clone().unwrap_or_else(|| usual.to_owned())
}

fn usage(turn: &Turn, request: &Request, completion: usize) -> Value {
    turn.usage.clone().unwrap_or_else(|| {
        let prompt = request.estimated_tokens();
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    })
}

/// Cuts a text the way tokens fall: a word with the space before it, long words in parts. Nothing is lost.
pub(crate) fn pieces(text: &str) -> Vec<String> {
    const LONGEST: usize = 12;
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut length = 0;
    for character in text.chars() {
        let starts = character.is_whitespace() && !piece.chars().all(char::is_whitespace);
        if starts || length == LONGEST {
            pieces.push(std::mem::take(&mut piece));
            length = 0;
        }
        piece.push(character);
        length += 1;
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_lose_nothing_and_are_never_empty(text in any::<String>()) {
            let cut = pieces(&text);
            prop_assert_eq!(cut.concat(), text);
            prop_assert!(cut.iter().all(|piece| !piece.is_empty()));
        }
    }

    #[test]
    fn a_word_is_a_piece() {
        assert_eq!(pieces("one two  three"), ["one", " two", "  three"]);
    }
}
