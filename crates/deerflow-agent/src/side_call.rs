//! Model calls beside the conversation: a title, a summary, a judgement.

use crate::RunContext;
use deerflow_core::{AgentError, ChatModel, ChatRequest, Message, ModelError, ModelErrorKind, ModelEvent};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Asks `model` once, without showing anything to the outside. The tokens count for the run under `source`
/// (`middleware:title`, say).
///
/// # Errors
/// [`AgentError::Cancelled`] when the run was stopped; otherwise what the model failed with, a time-out included.
pub async fn side_call(
    ctx: &RunContext,
    model: &Arc<dyn ChatModel>,
    request: ChatRequest,
    source: &'static str,
    limit: Duration,
) -> Result<Message, AgentError> {
    let cancel = ctx.cancel.child_token();
    // However this ends, nothing of the call is left running.
    let _stop = cancel.clone().drop_guard();
    let mut stream = model.stream(request, cancel);
    let answer = async {
        loop {
            match stream.next().await {
                Some(Ok(ModelEvent::Finished(turn))) => return Ok(turn.message),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(AgentError::from(error)),
                None => {
                    let text = format!("model {} ended its stream without a reply", model.info().name);
                    return Err(ModelError::new(ModelErrorKind::StreamInterrupted, text).into());
                }
            }
        }
    };
    let message = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(AgentError::Cancelled),
        answer = tokio::time::timeout(limit, answer) => answer.map_err(|_| {
            let text = format!("model {} gave no answer within {} s", model.info().name, limit.as_secs());
            ModelError::new(ModelErrorKind::StreamInterrupted, text)
        })??,
    };
    if let Some(usage) = message.as_ai().and_then(|part| part.usage_metadata.clone()) {
        ctx.record_usage(source, &model.info().name, usage);
    }
    Ok(message)
}
