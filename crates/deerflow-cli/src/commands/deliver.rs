//! Hands over the files that a run presented.

use super::watch::Ended;
use crate::app::App;
use crate::failure::Failure;
use crate::render::Renderer;
use deerflow_core::{MessageKind, ThreadState};
use deerflow_sandbox::{ThreadPaths, VirtualPath};
use std::collections::HashSet;
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
    let presented = presented(&ended.state);
    let mut files = Vec::new();
    if presented.is_empty() {
        return Ok(files);
    }
    let paths =
        ThreadPaths::new(app.config.home(), app.user.as_str(), ended.thread_id.as_str()).map_err(Failure::run)?;
    let sandbox =
        app.harness.sandbox().acquire(app.user.as_str(), ended.thread_id.as_str()).await.map_err(Failure::run)?;
    for virtual_path in presented {
        let Some(relative) = virtual_path.strip_prefix("/mnt/user-data/outputs/") else { continue };
        let Some(output) = output else {
            files.push(paths.outputs().join(relative));
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
        let target = output.join(relative);
        write(&target, &bytes).map_err(|e| Failure::run(format!("cannot write {}: {e}", target.display())))?;
        files.push(target);
    }
    Ok(files)
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

/// Virtual paths presented since the user's last message, in order.
fn presented(state: &ThreadState) -> Vec<String> {
    let start = state.messages.iter().rposition(|m| m.is_genuine_user()).unwrap_or(0);
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
