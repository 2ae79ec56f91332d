//! A run that is followed.

use deerflow_core::ports::RunRow;
use deerflow_core::{RunId, ThreadId};
use deerflow_runtime::Frame;
use deerflow_service::{Frames, Run};
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The frames of a run, up to `end`.
///
/// Dropped before, the run goes on, unless it was created with `on_disconnect: cancel` or joined with that wish;
/// [`join`](super::DeerFlowClient::join) takes it up again after the last frame's id.
pub struct RunStream {
    row: RunRow,
    frames: Frames,
}

impl RunStream {
    pub(super) fn new(row: RunRow, frames: Frames) -> Self {
        Self { row, frames }
    }
    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.row.run_id
    }
    /// Its thread.
    #[must_use]
    pub fn thread_id(&self) -> &ThreadId {
        &self.row.thread_id
    }
    /// The run as it was when it was asked for.
    #[must_use]
    pub fn run(&self) -> Run {
        Run::of(self.row.clone(), None)
    }
}

impl Stream for RunStream {
    type Item = Frame;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        Pin::new(&mut self.frames).poll_next(cx)
    }
}
