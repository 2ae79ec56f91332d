//! An uploaded file as clients see it.

use crate::shapes::encoded;
use deerflow_core::ThreadId;
use deerflow_sandbox::UPLOADS;
use serde::Serialize;
use utoipa::ToSchema;

/// An uploaded file.
#[derive(Debug, Serialize, ToSchema)]
pub struct File {
    /// Its name in the uploads folder.
    #[schema(example = "report.pdf")]
    pub filename: String,
    /// Bytes.
    pub size: u64,
    /// The same as `virtual_path`.
    pub path: String,
    /// Where the agent finds it.
    #[schema(example = "/mnt/user-data/uploads/report.pdf")]
    pub virtual_path: String,
    /// Where clients find it.
    pub artifact_url: String,
    /// With its dot; absent for a name without one.
    #[schema(example = ".pdf")]
    pub extension: Option<String>,
    /// Last change, in seconds since 1970.
    pub modified: Option<f64>,
    /// The name its sender gave it, when it is another.
    pub original_filename: Option<String>,
    /// Name of the Markdown that was made of it.
    pub markdown_file: Option<String>,
    /// Where the agent finds it.
    pub markdown_path: Option<String>,
    /// The same.
    pub markdown_virtual_path: Option<String>,
    /// Where clients find it.
    pub markdown_artifact_url: Option<String>,
    /// What its sender should know: why there is no Markdown, or what it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl File {
    /// A file of this name and size.
    pub(super) fn new(thread_id: &ThreadId, filename: String, size: u64) -> Self {
        let path = format!("{UPLOADS}/{filename}");
        let extension = filename.rfind('.').filter(|at| *at > 0).map(|at| filename[at..].to_owned());
        Self {
            artifact_url: url(thread_id, &filename),
            filename,
            size,
            path: path.clone(),
            virtual_path: path,
            extension,
            modified: None,
            original_filename: None,
            markdown_file: None,
            markdown_path: None,
            markdown_virtual_path: None,
            markdown_artifact_url: None,
            warning: None,
        }
    }

    /// With the time of its last change, in milliseconds since 1970.
    pub(super) fn modified(mut self, modified_ms: i64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of any date are exact in a double")]
        let seconds = modified_ms as f64 / 1000.0;
        self.modified = Some(seconds);
        self
    }

    /// With the name its sender gave it.
    pub(super) fn called(mut self, original: Option<String>) -> Self {
        self.original_filename = original;
        self
    }

    /// With the Markdown that was made of it.
    pub(super) fn with_markdown(mut self, thread_id: &ThreadId, name: Option<String>) -> Self {
        let path = name.as_ref().map(|name| format!("{UPLOADS}/{name}"));
        self.markdown_artifact_url = name.as_ref().map(|name| url(thread_id, name));
        self.markdown_path = path.clone();
        self.markdown_virtual_path = path;
        self.markdown_file = name;
        self
    }
}

fn url(thread_id: &ThreadId, name: &str) -> String {
    format!("/api/threads/{thread_id}/artifacts{UPLOADS}/{}", encoded(name))
}

/// Name of the Markdown that is made of a document of this name; none for what is no document.
pub(super) fn companion(name: &str) -> Option<String> {
    let (stem, extension) = name.rsplit_once('.')?;
    let known = ["pdf", "ppt", "pptx", "xls", "xlsx", "doc", "docx", "csv", "html", "htm", "epub"];
    known.contains(&extension.to_ascii_lowercase().as_str()).then(|| format!("{stem}.md"))
}
