//! Hands over the files that a run presented.

use super::watch::Ended;
use crate::app::App;
use crate::failure::Failure;
use crate::render::Renderer;
use deerflow_core::{Message, MessageKind, ThreadState};
use deerflow_harness::middleware::RUN_INPUT_ID;
use deerflow_sandbox::{ThreadPaths, VirtualPath};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Largest file handed over.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Fails early when the output folder cannot be one.
pub(crate) fn check(output: Option<&Path>) -> Result<(), Failure> {
    match output {
        Some(path) if path.exists() && !path.is_dir() => {
            Err(Failure::usage(format!("--output {} is not a folder", path.display())))
        }
        _ => Ok(()),
    }
}

/// Copies what this run presented into `output`; without one, says where it lies.
pub(crate) async fn deliver(
    app: &App,
    ended: &Ended,
    output: Option<&Path>,
    renderer: &mut Renderer,
) -> Result<Vec<PathBuf>, Failure> {
    let presented = presented(&ended.state, ended.run_id.as_str());
    let mut files = Vec::new();
    if presented.is_empty() {
        return Ok(files);
    }
    let paths =
        ThreadPaths::new(app.config.home(), app.user.as_str(), ended.thread_id.as_str()).map_err(Failure::run)?;
    let sandbox =
        app.harness.sandbox().acquire(app.user.as_str(), ended.thread_id.as_str()).await.map_err(Failure::run)?;
    let mut delivered = Delivered::load(paths.thread_dir().join("delivered.json"));
    for virtual_path in presented {
        let Some(relative) = virtual_path.strip_prefix("/mnt/user-data/outputs/") else { continue };
        let Some(output) = output else {
            match real_file(&paths.outputs(), relative) {
                Some(file) => files.push(file),
                None => renderer.note(&format!("{virtual_path} was presented but is no file of this thread any more")),
            }
            continue;
        };
        let parsed = VirtualPath::parse(&virtual_path).map_err(Failure::run)?;
        let bytes = match sandbox.read_bytes(&parsed, MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                renderer.note(&format!("{virtual_path} was presented but cannot be read: {error}"));
                continue;
            }
        };
        let wanted = output.join(relative);
        let target = delivered.place(&wanted, &bytes);
        if target != wanted {
            renderer.note(&format!("{} is not ours to replace; the new one is {}", wanted.display(), target.display()));
        }
        write(&target, &bytes).map_err(|e| Failure::run(format!("cannot write {}: {e}", target.display())))?;
        delivered.note(&target, &bytes);
        files.push(target);
    }
    delivered.save();
    Ok(files)
}

/// The file as this machine knows it, if it is one: a command may have put a link to somewhere else in its place.
fn real_file(outputs: &Path, relative: &str) -> Option<PathBuf> {
    let (root, file) = (outputs.canonicalize().ok()?, outputs.join(relative).canonicalize().ok()?);
    (file.starts_with(&root) && file.is_file()).then_some(file)
}

/// What earlier runs of the thread have put where, by a digest: that may be replaced, a file that somebody else wrote or
/// changed may not.
struct Delivered {
    file: PathBuf,
    digests: BTreeMap<PathBuf, u64>,
}

impl Delivered {
    fn load(file: PathBuf) -> Self {
        let digests =
            std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { file, digests }
    }

    /// `wanted`, or the next free name beside it.
    fn place(&self, wanted: &Path, bytes: &[u8]) -> PathBuf {
        let stem = wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let extension = wanted.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        let names = std::iter::once(wanted.to_owned())
            .chain((1..).map(|n| wanted.with_file_name(format!("{stem}_{n}{extension}"))));
        let free = |path: &PathBuf| match std::fs::read(path) {
            Ok(old) => old == bytes || self.digests.get(&absolute(path)) == Some(&digest(&old)),
            Err(_) => std::fs::symlink_metadata(path).is_err(),
        };
        names.take(1000).find(free).unwrap_or_else(|| wanted.to_owned())
    }

    fn note(&mut self, target: &Path, bytes: &[u8]) {
        self.digests.insert(absolute(target), digest(bytes));
    }

    fn save(&self) {
        // Without it the next delivery takes a new name; nothing is lost.
        if let Ok(bytes) = serde_json::to_vec(&self.digests) {
            let _ = std::fs::write(&self.file, bytes);
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn digest(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn write(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = target.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Never half a file, and never through a link that stands in its place.
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!(".{name}.{}.part", std::process::id()));
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, target).inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Virtual paths presented since the user's last message, in order. What was said to the run while it worked is no new
/// beginning.
fn presented(state: &ThreadState, run_id: &str) -> Vec<String> {
    let steered = |m: &Message| {
        m.additional_kwargs.contains_key(RUN_INPUT_ID)
            && m.additional_kwargs.get("run_id").is_some_and(|id| id == run_id)
    };
    let start = state.messages.iter().rposition(|m| m.is_genuine_user() && !steered(m)).unwrap_or(0);
    let answered: HashSet<&str> = state.messages[start..]
        .iter()
        .filter_map(|m| match &m.kind {
            MessageKind::Tool(part) if part.status == deerflow_core::ToolStatus::Success => {
                Some(part.tool_call_id.as_str())
            }
            _ => None,
        })
        .collect();
    let calls = state.messages[start..].iter().flat_map(|m| m.tool_calls());
    let claimed: HashSet<String> = calls
        .filter(|c| c.name == "present_files" && answered.contains(c.id()))
        .filter_map(|c| c.args.get("filepaths").and_then(|v| v.as_array()))
        .flatten()
        .filter_map(|v| VirtualPath::parse(v.as_str()?).ok())
        .map(|p| p.as_str().to_owned())
        .collect();
    state.artifacts.iter().flatten().filter(|path| claimed.contains(*path)).cloned().collect()
}
