//! `deerflow threads compact`.

use super::super::{say, say_json};
use super::{idle, missing};
use crate::app::App;
use crate::failure::Failure;
use deerflow_core::ThreadId;
use deerflow_core::ports::ThreadRepo as _;
use deerflow_harness::middleware::CompactError;
use deerflow_runtime::RuntimeError;
use serde_json::json;
use std::path::PathBuf;

pub(super) async fn compact(config: Option<PathBuf>, id: &ThreadId, json: bool) -> Result<(), Failure> {
    let app = App::open(config).await?;
    let result = carry_out(&app, id, json).await;
    app.store.close().await;
    result
}

async fn carry_out(app: &App, id: &ThreadId, json: bool) -> Result<(), Failure> {
    app.store.thread(&app.user, id).await.map_err(Failure::run)?.ok_or_else(|| missing(id))?;
    idle(&*app.store, &app.user, app.config.home(), id, "compact it").await?;
    let options = app.runs.last_options(&app.user, id).await.map_err(Failure::run)?;
    let compaction = match app.runs.compact(&app.user, id, &options).await {
        Ok(compaction) => compaction,
        Err(error @ RuntimeError::Compact(CompactError::NothingToCompact)) => return Err(Failure::usage(error)),
        Err(error) => return Err(Failure::run(error)),
    };
    if json {
        return say_json(&json!({
            "thread_id": id,
            "compacted": true,
            "removed_message_count": compaction.removed_messages,
            "preserved_message_count": compaction.preserved_messages,
            "tokens_before": compaction.tokens_before,
            "tokens_after": compaction.tokens_after,
            "total_tokens": compaction.usage.total_tokens,
        }));
    }
    say(&format!(
        "{} messages of {id} are a summary now, {} stay as they were; about {} tokens became {}",
        compaction.removed_messages, compaction.preserved_messages, compaction.tokens_before, compaction.tokens_after
    ));
    say("`deerflow threads history` still has what was there before");
    Ok(())
}
