//! Why a turn ended (<https://ai.google.dev/api/generate-content#FinishReason>).

/// What an end means for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish<'r> {
    /// The turn is complete; the reason in the words of chat completions, or the provider's own where those have none.
    Done(&'r str),
    /// The model made a call that nobody can read.
    BrokenCall,
    /// The provider refuses the history: a call in it lacks its thought signature.
    NoSignature,
    /// The model stopped for no reason of the conversation's.
    Failed,
}

/// The meaning of `finishReason`.
pub(super) fn meaning(reason: &str, calls: bool) -> Finish<'_> {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Finish::Done(if calls { "tool_calls" } else { "stop" }),
        "MAX_TOKENS" => Finish::Done("length"),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => Finish::BrokenCall,
        "MISSING_THOUGHT_SIGNATURE" => Finish::NoSignature,
        "OTHER" | "MALFORMED_RESPONSE" | "LANGUAGE" | "NO_IMAGE" | "IMAGE_OTHER" | "TOO_MANY_TOOL_CALLS" => {
            Finish::Failed
        }
        // The reasons of safety, by the names under which everybody knows them.
        other => Finish::Done(other),
    }
}

/// The finish reason of a prompt that was blocked: the same name where there is one.
pub(super) fn blocked(reason: &str) -> &str {
    match reason {
        "SAFETY" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "IMAGE_SAFETY" => reason,
        _ => "content_filter",
    }
}
