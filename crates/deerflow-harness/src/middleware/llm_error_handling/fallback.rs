//! The line of models that may answer, and a model that goes down that line by itself.

use super::ProcessLimits;
use deerflow_core::{ChatModel, ChatRequest, Message, ModelError, ModelErrorKind, ModelEvent, ModelInfo};
use futures::stream::{self, BoxStream, StreamExt as _};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Key of `response_metadata` with the configured name of the model that answered in place of the run's own. Its tokens and
/// their price are that model's.
pub const ANSWERED_BY: &str = "answered_by";

/// The models in the order they are asked: those that rest come last. The one that never rests with nobody else there.
pub(super) fn asked_in_order(
    limits: &ProcessLimits,
    own: &Arc<dyn ChatModel>,
    fallbacks: &[Arc<dyn ChatModel>],
) -> Vec<Arc<dyn ChatModel>> {
    let all = std::iter::once(own).chain(fallbacks).cloned();
    let (awake, resting): (Vec<_>, Vec<_>) = all.partition(|model| limits.rests(&model.info().name).is_none());
    awake.into_iter().chain(resting).collect()
}

/// The reply with the name of who gave it, if that is not the run's own model.
pub(super) fn stamp(mut message: Message, own: &str, answered: &str) -> Message {
    if own != answered {
        message.response_metadata.insert(ANSWERED_BY.to_owned(), answered.into());
    }
    message
}

/// A model with fall-backs, for calls beside the conversation, which no middleware goes around: titles, summaries,
/// judgements of goals. It makes one attempt with each model, and is silent about it except in the log.
pub struct FallbackModel {
    own: Arc<dyn ChatModel>,
    fallbacks: Vec<Arc<dyn ChatModel>>,
    limits: Arc<ProcessLimits>,
}

impl FallbackModel {
    /// `own` with these behind it; `own` itself when there are none.
    #[must_use]
    pub fn around(
        own: Arc<dyn ChatModel>,
        fallbacks: Vec<Arc<dyn ChatModel>>,
        limits: Arc<ProcessLimits>,
    ) -> Arc<dyn ChatModel> {
        if fallbacks.is_empty() { own } else { Arc::new(Self { own, fallbacks, limits }) }
    }
}

/// A call on its way down the line.
struct Call {
    own: String,
    waiting: VecDeque<Arc<dyn ChatModel>>,
    limits: Arc<ProcessLimits>,
    request: ChatRequest,
    cancel: CancellationToken,
    /// The model that is asked, and its reply.
    asked: Option<(String, BoxStream<'static, Result<ModelEvent, ModelError>>)>,
    begun: bool,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            let (name, reply) = match &mut self.asked {
                Some(asked) => asked,
                None => {
                    let model = self.waiting.pop_front()?;
                    let reply = model.stream(self.request.clone(), self.cancel.clone());
                    self.asked.insert((model.info().name.clone(), reply))
                }
            };
            match reply.next().await {
                Some(Err(error))
                    if error.kind.is_the_providers() && !self.begun && !error.begun && !self.waiting.is_empty() =>
                {
                    tracing::warn!(model = %name, reason = error.kind.reason(), %error, "another model is asked");
                    // One attempt tells enough only where another one would end alike.
                    if !error.kind.is_retriable() && error.kind != ModelErrorKind::BadResponse {
                        self.limits.rest(name, error.kind.reason());
                    }
                    self.asked = None;
                }
                Some(Ok(ModelEvent::Finished(mut turn))) => {
                    turn.message = stamp(turn.message, &self.own, name);
                    return Some(Ok(ModelEvent::Finished(turn)));
                }
                Some(Ok(delta)) => {
                    self.begun = true;
                    return Some(Ok(delta));
                }
                end => {
                    // Nobody else is asked once this one has ended.
                    self.waiting.clear();
                    return end;
                }
            }
        }
    }
}

impl ChatModel for FallbackModel {
    fn info(&self) -> &ModelInfo {
        self.own.info()
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let call = Call {
            own: self.own.info().name.clone(),
            waiting: asked_in_order(&self.limits, &self.own, &self.fallbacks).into(),
            limits: Arc::clone(&self.limits),
            request,
            cancel,
            asked: None,
            begun: false,
        };
        stream::unfold(call, |mut call| async move {
            let item = call.next().await?;
            Some((item, call))
        })
        .boxed()
    }
}
