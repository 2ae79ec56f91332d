//! `history_search`, `history_read` and `task_note`.

use async_trait::async_trait;
use deerflow_core::ports::{ArchiveRole, HistoryArchive, PAGE_CHARS, SEARCH_HITS};
use deerflow_core::state::TaskNote;
use deerflow_core::{Effects, JsonMap, StateUpdate, StoreError, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_tools::{parse_args, tool_spec};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

const SEARCH: &str = "history_search";
const READ: &str = "history_read";
const NOTE: &str = "task_note";
/// Notes a thread has at most; the reducer's own limit.
const MAX_NOTES: usize = 8;
const NOTE_CHARS: usize = 750;
const MAX_SOURCES: usize = 4;

pub(super) fn all(archive: &Arc<dyn HistoryArchive>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Search {
            spec: tool_spec::<SearchArgs>(
                SEARCH,
                "Finds earlier messages of this conversation that were replaced by the summary. Use it when the summary lacks an exact \
                 word, figure, path or decision. Gives at most 8 excerpts with source ids; read one whole with history_read.",
            ),
            archive: archive.clone(),
        }),
        Arc::new(Read {
            spec: tool_spec::<ReadArgs>(
                READ,
                "Shows an archived message word for word, in pages of 4000 characters, by the source id that history_search gave.",
            ),
            archive: archive.clone(),
        }),
        Arc::new(Note {
            spec: tool_spec::<NoteArgs>(
                NOTE,
                "Keeps a short note that stays in sight through the whole task, whatever is summarised: a constraint, a decision, an \
                 exact value. At most 8 notes; writing a key again replaces its note, empty content deletes it.",
            ),
            archive: archive.clone(),
        }),
    ]
}

fn failed(error: &StoreError) -> ToolError {
    tracing::warn!(%error, "the history archive failed");
    ToolError::respond(format!("the history archive cannot be used now: {error}. Go on with the summary."))
}

fn is_source(id: &str) -> bool {
    id.strip_prefix('r')
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

struct Search {
    spec: ToolSpec,
    archive: Arc<dyn HistoryArchive>,
}

#[derive(Deserialize, JsonSchema)]
struct SearchArgs {
    /// Words to find; all of them first, some of them otherwise.
    query: String,
    /// Only what the user, the assistant or a tool said.
    #[serde(default)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
    Tool,
}

impl From<Role> for ArchiveRole {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Tool => Self::Tool,
        }
    }
}

#[async_trait]
impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let SearchArgs { query, role } = parse_args(&self.spec, args)?;
        if query.trim().is_empty() {
            return Err(ToolError::respond("`query` is blank; say which words to find"));
        }
        let role = role.map(ArchiveRole::from);
        let hits = self.archive.search_archive(&ctx.user_id, &ctx.thread_id, query.trim(), role, SEARCH_HITS).await;
        let hits = hits.map_err(|error| failed(&error))?;
        if hits.is_empty() {
            let quoted = Value::String(query);
            return Ok(ToolOutput::text(format!(
                "Nothing archived has {quoted}. Try other or fewer words, or no role."
            )));
        }
        let mut text = String::new();
        for hit in hits {
            let _ = writeln!(text, "{} ({}): {}\n", hit.source_id, hit.role.as_str(), hit.excerpt.trim());
        }
        Ok(ToolOutput::text(text.trim_end().to_owned()))
    }
}

struct Read {
    spec: ToolSpec,
    archive: Arc<dyn HistoryArchive>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadArgs {
    /// Source id, as history_search gave it.
    source_id: String,
    /// Character to begin at; 0 when left out.
    #[serde(default)]
    offset: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let ReadArgs { source_id, offset } = parse_args(&self.spec, args)?;
        let (source_id, offset) = (source_id.trim(), offset.unwrap_or(0));
        let page = match is_source(source_id) {
            true => self.archive.read_archive(&ctx.user_id, &ctx.thread_id, source_id, offset).await,
            false => Ok(None),
        };
        let Some(page) = page.map_err(|error| failed(&error))? else {
            return Err(ToolError::respond(unknown_source(source_id)));
        };
        if offset >= page.total_chars && offset > 0 {
            let text = format!("`offset` {offset} is behind the end: {source_id} has {} characters", page.total_chars);
            return Err(ToolError::respond(text));
        }
        let shown = page.text.chars().count().min(PAGE_CHARS);
        let end = offset + shown as u64;
        let more = page.next_offset.map(|next| format!("; go on with offset={next}")).unwrap_or_default();
        Ok(ToolOutput::text(format!(
            "{source_id} ({}), characters {offset} to {end} of {}{more}\n\n{}",
            page.role.as_str(),
            page.total_chars,
            page.text
        )))
    }
}

fn unknown_source(id: &str) -> String {
    format!("there is no archived message {}; use a source id that history_search gave", Value::String(id.to_owned()))
}

struct Note {
    spec: ToolSpec,
    archive: Arc<dyn HistoryArchive>,
}

#[derive(Deserialize, JsonSchema)]
struct NoteArgs {
    /// Name of the note: 1 to 40 of A-Z a-z 0-9 _ -.
    key: String,
    /// The note, at most 750 characters; empty deletes it.
    content: String,
    /// Archived messages it rests on, at most 4, by their source ids.
    #[serde(default)]
    source_ids: Option<Vec<String>>,
}

impl NoteArgs {
    fn deletes(&self) -> bool {
        self.content.trim().is_empty()
    }
    fn sources(&self) -> &[String] {
        self.source_ids.as_deref().unwrap_or_default()
    }
    /// What is wrong with it, as far as can be told from itself.
    fn fault(&self) -> Option<String> {
        let named = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=40).contains(&self.key.len()) || !self.key.bytes().all(named) {
            return Some("`key` has to be 1 to 40 of A-Z a-z 0-9 _ -".to_owned());
        }
        let length = self.content.chars().count();
        if length > NOTE_CHARS && !self.deletes() {
            return Some(format!(
                "`content` has {length} characters; at most {NOTE_CHARS} are kept, so say it shorter"
            ));
        }
        if self.sources().len() > MAX_SOURCES {
            return Some(format!("`source_ids` has {} entries; at most {MAX_SOURCES} are kept", self.sources().len()));
        }
        self.sources().iter().find(|id| !is_source(id)).map(|id| unknown_source(id))
    }
}

/// Keys there are when this call's turn has come. Calls of a batch run at the same time, so each works it out from the calls
/// before it: the first come, in call order, get the room.
fn keys_before(ctx: &ToolContext, spec: &ToolSpec) -> BTreeSet<String> {
    let held = ctx.state.task_notes.iter().flat_map(|notes| notes.keys().cloned());
    let mut keys: BTreeSet<String> = held.collect();
    let calls = ctx.state.last_ai().map(|m| m.tool_calls()).unwrap_or_default();
    for call in calls.iter().take(ctx.call_index).filter(|call| call.name == NOTE) {
        let Ok(args) = parse_args::<NoteArgs>(spec, call.args.clone()) else { continue };
        if args.fault().is_some() {
            continue;
        }
        if args.deletes() {
            keys.remove(&args.key);
        } else if keys.len() < MAX_NOTES || keys.contains(&args.key) {
            keys.insert(args.key);
        }
    }
    keys
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    /// All it writes is its part of the step.
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: NoteArgs = parse_args(&self.spec, args)?;
        if let Some(fault) = args.fault() {
            return Err(ToolError::respond(format!("{fault}. Nothing was noted.")));
        }
        let keys = keys_before(ctx, &self.spec);
        if args.deletes() {
            if !keys.contains(&args.key) {
                return Ok(ToolOutput::text(format!("There is no note `{}`.", args.key)));
            }
            return Ok(noted(&args.key, None, format!("Deleted the note `{}`.", args.key)));
        }
        if keys.len() >= MAX_NOTES && !keys.contains(&args.key) {
            let held = keys.into_iter().collect::<Vec<_>>().join(", ");
            let text = format!(
                "there are {MAX_NOTES} notes already ({held}). Delete one with empty content, or write over one. Nothing was noted."
            );
            return Err(ToolError::respond(text));
        }
        for id in args.sources() {
            let page = self.archive.read_archive(&ctx.user_id, &ctx.thread_id, id, 0).await;
            if page.map_err(|error| failed(&error))?.is_none() {
                return Err(ToolError::respond(format!("{}. Nothing was noted.", unknown_source(id))));
            }
        }
        let note = TaskNote {
            content: args.content.clone(),
            source_ids: args.sources().to_vec(),
            authority: "model_report".to_owned(),
        };
        Ok(noted(&args.key, Some(note), format!("Noted under `{}`.", args.key)))
    }
}

fn noted(key: &str, note: Option<TaskNote>, text: String) -> ToolOutput {
    let task_notes = Some(IndexMap::from([(key.to_owned(), note)]));
    ToolOutput { update: StateUpdate { task_notes, ..StateUpdate::none() }, ..ToolOutput::text(text) }
}
