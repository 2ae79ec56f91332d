//! Queries. Each runs inside a view, so that several see one state of the database.

mod api_keys;
mod archive;
mod feedback;
mod fork;
mod inputs;
mod items;
mod journal;
mod replay;
mod runs;
mod steps;
mod threads;
mod users;

pub(crate) use api_keys::{api_key_by_hash, api_keys};
pub(crate) use archive::{page, search as search_archive};
pub(crate) use feedback::{feedback, feedback_stats};
pub(crate) use fork::{copied, thread_key};
pub(crate) use inputs::{input, queued, returned};
pub(crate) use items::{FoundItem, item, item_namespaces, search_items};
pub(crate) use journal::journal;
pub(crate) use replay::log;
pub(crate) use runs::{run, runs};
pub(crate) use steps::{checkpoint, history, open_effects, step};
pub(crate) use threads::{count, search, thread, threads, unused};
pub(crate) use users::{count_admins, user, user_by_email, user_by_oauth, users};

use crate::error::Place;
use crate::pack::{Hash, Shelf};
use deerflow_core::StoreError;
use sqlx::{Row as _, SqliteConnection};

/// References looked up in one query.
const LOOK_UP: usize = 4096;
/// The list of hashes is one parameter, so that the text is the same for any number.
const PIECES: &str = "
    SELECT b.hash, b.data FROM json_each($2) wanted CROSS JOIN blobs b
        ON b.thread_key = $1 AND b.hash = unhex(wanted.value)";

/// Fetches content of a thread.
async fn fetch(
    view: &mut SqliteConnection,
    place: &Place,
    thread_key: i64,
    mut wanted: Vec<Hash>,
    shelf: &mut Shelf,
) -> Result<(), StoreError> {
    wanted.sort_unstable();
    wanted.dedup();
    for part in wanted.chunks(LOOK_UP) {
        let list = serde_json::Value::from(part.iter().map(Hash::hex).collect::<Vec<_>>()).to_string();
        let rows = sqlx::query(PIECES).bind(thread_key).bind(list).fetch_all(&mut *view).await;
        for row in rows.map_err(|error| place.explain(&error))? {
            let take = || Ok::<_, sqlx::Error>((row.try_get::<Vec<u8>, _>(0)?, row.try_get::<Vec<u8>, _>(1)?));
            let (hash, data) = take().map_err(|error| place.explain(&error))?;
            shelf.insert(Hash::from_bytes(&hash)?, data);
        }
    }
    Ok(())
}
