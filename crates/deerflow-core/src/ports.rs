//! Storage ports: what the rest of the house needs from a database, with plain types and no SQL.

mod api_keys;
mod archive;
mod feedback;
mod inputs;
mod items;
mod runs;
mod step_log;
mod threads;
mod users;

pub use api_keys::{API_KEY_USE_GRAIN, API_KEYS_PER_USER, ApiKeyHash, ApiKeyRepo, ApiKeyRow, NewApiKey};
pub use archive::{
    ArchiveHit, ArchiveLimits, ArchivePage, ArchiveRecord, ArchiveRole, ArchivedBatch, EXCERPT_CHARS, HistoryArchive,
    PAGE_CHARS, SEARCH_HITS,
};
pub use feedback::{FeedbackRepo, FeedbackRow, FeedbackStats, NewFeedback, Rating};
pub use inputs::{InputQueue, InputRow, InputState, NewInput, QUEUED_INPUTS};
pub use items::{
    ITEM_KEY_BYTES, ITEM_NAMESPACE_LABELS, ITEM_VALUE_BYTES, Item, ItemQuery, ItemRepo, NamespaceQuery, NewItem,
};
pub use runs::{EventRepo, NewRun, ROLLED_BACK, RunFilter, RunRepo, RunRow, Worker};
pub use step_log::{
    Checkpoint, Committed, EffectRecord, Fence, HistoryEntry, JournalRow, NewJournalRow, OpenEffect, RunOutcome,
    StepCommit, StepKind, StepLog,
};
pub use threads::{
    FORKED_FROM_CHECKPOINT, FORKED_FROM_THREAD, ThreadFilter, ThreadFork, ThreadPatch, ThreadQuery, ThreadRepo,
    ThreadRow, ThreadSort,
};
pub use users::{NewUser, OauthIdentity, SystemRole, UserPatch, UserRepo, UserRow};
