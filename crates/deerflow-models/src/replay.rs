//! Replay of recorded exchanges, byte for byte through the same decoders.

mod canonical;

use crate::record::{Entry, FORMAT, Header};
use crate::transport::{Transport, WireRequest, WireResponse};
use canonical::{canonical, difference};
use deerflow_config::ModelProfile;
use deerflow_core::{ModelError, ModelErrorKind};
use deerflow_net::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Answers requests from a recording.
///
/// A request is found by the hash of its canonical body: keys sorted; dates, times and UUIDs blanked, since they differ from
/// run to run. Equal requests get their recorded answers in order, and the last of them from then on. A request that was not
/// recorded is an error that says where it departs from the one that should come next.
pub(crate) struct Replay {
    path: PathBuf,
    entries: Vec<(Value, Entry)>,
    by_hash: HashMap<blake3::Hash, Vec<usize>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: Vec<bool>,
}

impl Replay {
    /// Reads a recording: the profile that was recorded, and the exchanges.
    pub(crate) fn load(path: &Path) -> Result<(ModelProfile, Self), ModelError> {
        let fail = |what: String| {
            ModelError::new(ModelErrorKind::BadRequest, format!("cannot replay {}: {what}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            fail(error.to_string()).with_hint("record one first: add `record_to: <path>` to a model and use it")
        })?;
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or_else(|| fail("the file is empty".to_owned()))?;
        let header: Header =
            serde_json::from_str(first).map_err(|_| fail("line 1 is not the head of a recording".to_owned()))?;
        if header.deerflow_recording != FORMAT {
            return Err(fail(format!("its format is {}, this program reads {FORMAT}", header.deerflow_recording)));
        }
        let profile: ModelProfile =
            serde_json::from_value(header.profile).map_err(|error| fail(format!("line 1: {error}")))?;
        let mut entries = Vec::new();
        let mut by_hash: HashMap<blake3::Hash, Vec<usize>> = HashMap::new();
        for (number, line) in lines {
            let entry: Entry =
                serde_json::from_str(line).map_err(|error| fail(format!("line {}: {error}", number + 1)))?;
            let canonical = canonical(&entry.request);
            by_hash.entry(hash(&canonical)).or_default().push(entries.len());
            entries.push((canonical, entry));
        }
        let state = Mutex::new(State { used: vec![false; entries.len()] });
        Ok((profile, Self { path: path.to_owned(), entries, by_hash, state }))
    }

    fn find(&self, body: &Value) -> Result<&Entry, ModelError> {
        let body = canonical(body);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = self.by_hash.get(&hash(&body)) {
            let free = places.iter().find(|at| !state.used[**at]).or(places.last()).copied().unwrap_or(0);
            state.used[free] = true;
            return Ok(&self.entries[free].1);
        }
        let expected = state.used.iter().position(|used| !used).or_else(|| self.entries.len().checked_sub(1));
        let what = match expected.and_then(|at| Some((at, self.entries.get(at)?))) {
            None => "it holds no exchange".to_owned(),
            Some((at, (recorded, _))) => {
                let where_ = difference(recorded, &body).unwrap_or_else(|| "nothing differs".to_owned());
                format!(
                    "this request is not in it. Exchange {} of {} was expected: {where_}",
                    at + 1,
                    self.entries.len()
                )
            }
        };
        let text = format!("cannot replay {}: {what}", self.path.display());
        Err(ModelError::new(ModelErrorKind::BadRequest, text)
            .with_hint("record it again, or undo what changed the request"))
    }
}

fn hash(canonical: &Value) -> blake3::Hash {
    blake3::hash(canonical.to_string().as_bytes())
}

impl Transport for Replay {
    fn send(&self, request: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>> {
        Box::pin(async move {
            let entry = self.find(&request.body)?;
            let mut headers = HeaderMap::new();
            for (name, value) in &entry.headers {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                    headers.insert(name, value);
                }
            }
            let chunks = entry.chunks.iter().map(|chunk| chunk.bytes().ok_or("the recording is damaged".to_owned()));
            let body: Vec<_> = chunks.chain(entry.broken.clone().map(Err)).collect();
            Ok(WireResponse { status: entry.status, headers, body: stream::iter(body).boxed() })
        })
    }
}
