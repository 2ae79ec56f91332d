//! What the tests of the middlewares share.

use deerflow_agent::RunContext;
use deerflow_core::{EventSink, RunId, ThreadId, UserId};
use tokio_util::sync::CancellationToken;

pub(crate) fn context() -> RunContext {
    context_with(EventSink::none())
}

pub(crate) fn context_with(events: EventSink) -> RunContext {
    RunContext::new(
        UserId::local(),
        ThreadId::parse("thread").unwrap(),
        RunId::parse("run").unwrap(),
        CancellationToken::new(),
        events,
    )
}
