//! The user's files on their way into a thread.

use crate::app::App;
use crate::failure::Failure;
use crate::render::Renderer;
use deerflow_core::ThreadId;
use deerflow_core::ports::ThreadRepo;
use deerflow_documents::{Existing, StageOptions, Upload, UploadLimits, stage_files};
use deerflow_sandbox::ThreadPaths;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Files that were copied into a thread for a run.
pub(crate) struct Uploads {
    paths: ThreadPaths,
    files: Vec<Upload>,
    /// Whether the thread had no folder before.
    is_new: bool,
    /// What was in its folder before: a file with the same bytes is used again, and not ours to take away.
    before: HashSet<OsString>,
}

impl Uploads {
    /// Copies the files into the thread, all or none; a folder made for that does not outlive a failure.
    pub(crate) async fn stage(
        app: &App,
        thread_id: &ThreadId,
        files: &[PathBuf],
        renderer: &mut Renderer,
    ) -> Result<Self, Failure> {
        let paths =
            ThreadPaths::new(app.config.home(), app.user.as_str(), thread_id.as_str()).map_err(Failure::usage)?;
        let is_new = !paths.thread_dir().exists();
        let before =
            std::fs::read_dir(paths.uploads()).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
        let mut uploads = Self { paths, files: Vec::new(), is_new, before };
        if files.is_empty() {
            return Ok(uploads);
        }
        match copy(app, thread_id, files, &uploads.paths).await {
            Ok(copied) => uploads.files = copied,
            Err(failure) => {
                uploads.remove(app, thread_id).await;
                return Err(failure);
            }
        }
        for upload in &uploads.files {
            if let Some(original) = &upload.original_filename {
                renderer.note(&format!("{original} is kept as {} in this thread", upload.filename));
            }
            if let Some(warning) = &upload.warning {
                renderer.note(&format!("{}: {warning}", upload.filename));
            }
        }
        Ok(uploads)
    }

    /// What the message says of them.
    pub(crate) fn to_json(&self) -> Value {
        let entry = |u: &Upload| {
            json!({
                "filename": u.filename, "size": u.size, "path": format!("/mnt/user-data/uploads/{}", u.filename),
                "status": "uploaded", "markdown_file": u.markdown_file,
            })
        };
        self.files.iter().map(entry).collect()
    }

    /// Takes them back: the run they were for did not begin.
    pub(crate) async fn remove(self, app: &App, thread_id: &ThreadId) {
        // Another process may have made the thread meanwhile; its files stay.
        let is_ours = self.is_new && matches!(app.store.thread(&app.user, thread_id).await, Ok(None));
        // What cannot be removed is copies of the user's own files, in a place that only their threads see.
        let _ = tokio::task::spawn_blocking(move || {
            if is_ours {
                return self.paths.remove_all().is_ok();
            }
            let folder = self.paths.uploads();
            // A command may have put a link in its place.
            if !std::fs::symlink_metadata(&folder).is_ok_and(|folder| folder.is_dir()) {
                return false;
            }
            let names = self.files.iter().flat_map(|f| [Some(&f.filename), f.markdown_file.as_ref()]).flatten();
            let ours = names.filter(|name| !self.before.contains(OsStr::new(name)));
            ours.map(|name| std::fs::remove_file(folder.join(name))).filter(Result::is_err).count() == 0
        })
        .await;
    }
}

async fn copy(app: &App, thread_id: &ThreadId, files: &[PathBuf], paths: &ThreadPaths) -> Result<Vec<Upload>, Failure> {
    // The sandbox makes the folders for its user.
    app.harness.sandbox().acquire(app.user.as_str(), thread_id.as_str()).await.map_err(Failure::run)?;
    let options = StageOptions {
        limits: (*app.config.section::<UploadLimits>()).clone(),
        converter: Some(deerflow::assembly::converter().map_err(Failure::run)?),
        owner: app.harness.sandbox().file_owner(),
        existing: Existing::Keep,
    };
    stage_files(files, &paths.uploads(), &options).await.map_err(Failure::usage)
}
