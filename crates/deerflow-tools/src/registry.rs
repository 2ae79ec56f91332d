//! Which tools a run has, always in the same order: a changed order would throw away the provider's prompt cache.

use crate::ask_clarification::AskClarification;
use crate::bash::Bash;
use crate::documents::DocumentReader;
use crate::glob::Glob;
use crate::grep::Grep;
use crate::limits::ToolLimits;
use crate::list_uploaded_files::ListUploadedFiles;
use crate::ls::Ls;
use crate::present_files::PresentFiles;
use crate::read_file::ReadFile;
use crate::str_replace::StrReplace;
use crate::view_image::ViewImage;
use crate::workbench::Workbench;
use crate::write_file::WriteFile;
use crate::write_todos::WriteTodos;
use deerflow_core::Tool;
use deerflow_documents::Converter;
use deerflow_sandbox::SandboxProvider;
use std::sync::{Arc, OnceLock};

/// What the built-in tools work with. Keep one for the life of the server: it holds the locks of files being written and the
/// converted documents.
#[derive(Clone)]
pub struct BuiltinTools {
    bench: Arc<Workbench>,
    /// The tools of each selection, made when first asked for: their schemas take longer than a run's start may.
    made: Arc<[OnceLock<ToolSet>; 16]>,
}

type ToolSet = Vec<Arc<dyn Tool>>;

/// Which of the tools a run gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolSelection {
    /// Commands are offered: the sandbox's capability says so.
    pub bash: bool,
    /// The model can look at images.
    pub vision: bool,
    /// The run plans with a list of todos.
    pub plan_mode: bool,
    /// Someone can answer questions.
    pub interactive: bool,
}

impl Default for ToolSelection {
    fn default() -> Self {
        Self { bash: true, vision: false, plan_mode: false, interactive: true }
    }
}

impl BuiltinTools {
    /// The tools on the computers that `sandbox` gives, within `limits`; `documents` converts what `read_file` is pointed at.
    #[must_use]
    pub fn new(sandbox: Arc<dyn SandboxProvider>, limits: ToolLimits, documents: Converter) -> Self {
        let bench = Arc::new(Workbench::new(sandbox, limits, DocumentReader::new(documents)));
        Self { bench, made: Arc::default() }
    }

    /// What documents are converted with.
    #[must_use]
    pub fn converter(&self) -> &Converter {
        self.bench.documents.converter()
    }

    /// `view_image` by itself.
    #[must_use]
    pub fn view_image(&self) -> Arc<dyn Tool> {
        Arc::new(ViewImage::new(Arc::clone(&self.bench)))
    }

    #[cfg(test)]
    pub(crate) fn bench(&self) -> &Arc<Workbench> {
        &self.bench
    }
}

/// The tool that keeps a plan, for the middleware that owns the plan.
#[must_use]
pub fn write_todos() -> Arc<dyn Tool> {
    Arc::new(WriteTodos::new())
}

/// The tool that asks the user, for agents that are not made from a selection.
#[must_use]
pub fn ask_clarification() -> Arc<dyn Tool> {
    Arc::new(AskClarification::new())
}

/// The built-in tools of a run: `bash`, `ls`, `read_file`, `write_file`, `str_replace`, `glob`, `grep`, `present_files`,
/// `ask_clarification`, `list_uploaded_files`, `view_image`, `write_todos`, less those that are not selected.
#[must_use]
pub fn builtin_tools(tools: &BuiltinTools, selection: &ToolSelection) -> Vec<Arc<dyn Tool>> {
    let ToolSelection { bash, vision, plan_mode, interactive } = *selection;
    let key = [bash, vision, plan_mode, interactive].into_iter().fold(0, |key, flag| key << 1 | usize::from(flag));
    tools.made[key].get_or_init(|| make(tools, selection)).clone()
}

fn make(tools: &BuiltinTools, selection: &ToolSelection) -> Vec<Arc<dyn Tool>> {
    let bench = || Arc::clone(&tools.bench);
    let mut all: Vec<Arc<dyn Tool>> = Vec::with_capacity(12);
    if selection.bash {
        all.push(Arc::new(Bash::new(bench())));
    }
    all.push(Arc::new(Ls::new(bench())));
    all.push(Arc::new(ReadFile::new(bench(), selection.vision)));
    all.push(Arc::new(WriteFile::new(bench())));
    all.push(Arc::new(StrReplace::new(bench())));
    all.push(Arc::new(Glob::new(bench())));
    all.push(Arc::new(Grep::new(bench())));
    all.push(Arc::new(PresentFiles::new(bench())));
    if selection.interactive {
        all.push(Arc::new(AskClarification::new()));
    }
    all.push(Arc::new(ListUploadedFiles::new(bench())));
    if selection.vision {
        all.push(Arc::new(ViewImage::new(bench())));
    }
    if selection.plan_mode {
        all.push(Arc::new(WriteTodos::new()));
    }
    all
}

#[cfg(test)]
mod tests;
