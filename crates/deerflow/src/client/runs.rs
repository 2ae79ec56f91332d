//! Runs of the embedded client.

use super::{ClientError, DeerFlowClient, RunStream};
use deerflow_core::ports::{CancelAction, RunRow, StepLog as _};
use deerflow_core::{Lineage, RunId, RunStatus, ThreadId};
use deerflow_runtime::{EventId, StreamMode};
use deerflow_service::{IfNotExistsBody, Modes, OnDisconnectBody, Reader, Refusal, Run, RunBody, RunQuery};
use serde_json::Value;

impl DeerFlowClient {
    /// Says something on a new thread, and gives the answer.
    ///
    /// # Errors
    /// As [`Self::chat_on`].
    pub async fn chat(&self, text: impl Into<String>) -> Result<String, ClientError> {
        self.chat_on(&ThreadId::random(), text).await
    }

    /// Says something on a thread, and gives the answer: the text of the last message of the assistant. A run that stops to
    /// ask a person gives what it said so far; the question is in the [`state`](Self::state).
    ///
    /// # Errors
    /// When it is refused; [`ClientError::Run`] when the run does not end well.
    ///
    /// # Cancel safety
    /// The run is stopped when nobody waits any more.
    pub async fn chat_on(&self, thread: &ThreadId, text: impl Into<String>) -> Result<String, ClientError> {
        let body = RunBody { on_disconnect: Some(OnDisconnectBody::Cancel), ..RunBody::say(text) };
        let row = self.admit(thread, body).await?;
        let guard = self.service.runs.attach(&row.run_id, true);
        let ended = self.service.runs.wait(&row.run_id).await.map_err(Refusal::from)?;
        guard.done();
        let head = self.service.store.load(&Lineage::root(thread.clone()), None).await.map_err(Refusal::from)?;
        let waits = head.as_ref().is_some_and(|head| !head.state.interrupts().is_empty());
        if ended.status != RunStatus::Success && !waits {
            let (run_id, status) = (ended.run_id, ended.status.wire().to_owned());
            return Err(ClientError::Run { run_id, status, error: ended.error });
        }
        let last = head.as_ref().and_then(|head| head.state.last_ai()).map(|message| message.text().into_owned());
        Ok(last.unwrap_or_default())
    }

    /// Begins a run and follows it. The thread is made when there is none, unless the body says `if_not_exists: reject`.
    /// Without modes it is `values`, or what the body says.
    ///
    /// # Errors
    /// Not found; a conflict when the thread has a live run and the body names no other strategy; when the body does not fit.
    pub async fn stream(
        &self,
        thread: &ThreadId,
        input: impl Into<RunBody>,
        modes: &[StreamMode],
    ) -> Result<RunStream, Refusal> {
        let mut body = input.into();
        if !modes.is_empty() {
            body.stream_mode = Some(Modes(modes.to_vec()));
        }
        let row = self.admit(thread, body).await?;
        let frames = self.service.frames(&row, Reader::creator(&row));
        Ok(RunStream::new(row, frames))
    }

    /// Begins a run in the background: [`join`](Self::join) it, or [`wait_for`](Self::wait_for) its end.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub async fn start(&self, thread: &ThreadId, input: impl Into<RunBody>) -> Result<Run, Refusal> {
        Ok(Run::of(self.admit(thread, input.into()).await?, None))
    }

    /// Begins a run and waits for its end: the values of the state then, also of a run that failed.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub async fn wait(&self, thread: &ThreadId, input: impl Into<RunBody>) -> Result<Value, Refusal> {
        let row = self.admit(thread, input.into()).await?;
        let cancels = Reader::creator(&row).cancels;
        self.service.outcome(&row, cancels).await
    }

    /// Follows a run from the start, or after the frame with this id. Every reader reaches `end`, of a run that is long over
    /// too.
    ///
    /// # Errors
    /// Not found.
    pub async fn join(&self, thread: &ThreadId, run: &RunId, reader: Reader) -> Result<RunStream, Refusal> {
        let row = self.service.own_run(self.user_id(), thread, run).await?;
        let frames = self.service.frames(&row, reader);
        Ok(RunStream::new(row, frames))
    }

    /// Waits for the end of a run: the values of the state then.
    ///
    /// # Errors
    /// Not found.
    pub async fn wait_for(&self, thread: &ThreadId, run: &RunId) -> Result<Value, Refusal> {
        let row = self.service.own_run(self.user_id(), thread, run).await?;
        self.service.outcome(&row, false).await
    }

    /// Stops a run, and gives back when it has stopped. [`CancelAction::Rollback`] takes back what it did.
    ///
    /// # Errors
    /// Not found; a conflict when it has ended by itself.
    pub async fn cancel(&self, thread: &ThreadId, run: &RunId, action: CancelAction) -> Result<(), Refusal> {
        let row = self.service.own_run(self.user_id(), thread, run).await?;
        self.service.stop(&row, action, true).await
    }

    /// The runs of a thread, newest first.
    ///
    /// # Errors
    /// Not found.
    pub async fn runs(&self, thread: &ThreadId, query: RunQuery) -> Result<Vec<Run>, Refusal> {
        self.service.runs_of(self.user_id(), thread, query).await
    }

    /// A run.
    ///
    /// # Errors
    /// Not found.
    pub async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Run, Refusal> {
        self.service.run(self.user_id(), thread, run).await
    }

    /// After a frame's id, for [`Self::join`].
    #[must_use]
    pub fn after(id: EventId) -> Reader {
        Reader { after: Some(id), ..Reader::default() }
    }

    async fn admit(&self, thread: &ThreadId, mut body: RunBody) -> Result<RunRow, Refusal> {
        if let Some(model) = &self.model
            && !body.names_model()
        {
            body = body.with_context("model_name", model.clone());
        }
        let create = body.if_not_exists != Some(IfNotExistsBody::Reject);
        self.service.admit(&self.caller, thread, body, None, create).await
    }
}
