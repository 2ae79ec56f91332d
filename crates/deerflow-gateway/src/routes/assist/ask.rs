//! One question to a model.

use crate::app::AppState;
use crate::caller::Caller;
use deerflow_agent::{RunContext, side_call};
use deerflow_core::{ChatRequest, EventSink, Message, RunId, ThreadId};
use deerflow_harness::middleware::{PiiRedactionConfig, Redactor};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What redacts personal data before a model sees it, as in runs.
pub(super) fn redactor(app: &AppState, thread_id: &ThreadId) -> Redactor {
    let config = app.config.section::<PiiRedactionConfig>();
    Redactor::of_installation(&config, app.config.home()).for_thread(thread_id)
}

/// The text of a model's answer, its thinking aside. The first of `models` that is named is asked, or the default.
///
/// # Errors
/// What the log should say. Dropping the future stops the model.
pub(super) async fn ask(
    app: &AppState,
    caller: &Caller,
    thread_id: ThreadId,
    models: [Option<&str>; 2],
    system: &str,
    question: String,
) -> Result<String, String> {
    let name = models.into_iter().flatten().next();
    let model = app.harness.models().get(name).map_err(|error| error.to_string())?;
    let cancel = CancellationToken::new();
    let ctx = RunContext::new(caller.user_id.clone(), thread_id, RunId::random(), cancel, EventSink::none());
    let request = ChatRequest {
        system: Some(Arc::from(system)),
        messages: vec![Arc::new(Message::human(question))],
        ..ChatRequest::default()
    };
    let answer = side_call(&ctx, &model, request, "gateway", TIMEOUT).await.map_err(|error| error.to_string())?;
    Ok(without_thinking(&answer.text()).trim().to_owned())
}

/// Some models write what they think into their answer. An unclosed tag means that there is nothing but that.
fn without_thinking(text: &str) -> &str {
    match text.rsplit_once("</think>") {
        Some((_, answer)) => answer,
        None => text.split_once("<think>").map_or(text, |(before, _)| before),
    }
}

#[cfg(test)]
mod tests {
    use super::without_thinking;

    #[test]
    fn thinking_is_no_part_of_an_answer() {
        assert_eq!(without_thinking("<think>a</think>b"), "b");
        assert_eq!(without_thinking("a</think>b"), "b");
        assert_eq!(without_thinking("b<think>a"), "b");
        assert_eq!(without_thinking("b"), "b");
    }
}
