//! `ls`: two levels of a directory.

use crate::cut::head_cut;
use crate::workbench::{Wanted, Workbench, parse_path, respond};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const LEVELS: usize = 2;
const DESCRIPTION: &str = "\
List a directory, two levels deep: one absolute path a line, directories end with `/`. Caches, logs, build results and version \
control folders are left out. Use it to learn what is there; to find files by name anywhere beneath a directory use glob.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this directory is listed. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Absolute path of the directory, for example /mnt/user-data/workspace.
    path: String,
}

pub(crate) struct Ls {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl Ls {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("ls", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for Ls {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        let sandbox = self.bench.sandbox(ctx).await?;
        let path = parse_path(&*sandbox, &args.path)?;
        let listing = sandbox.list_dir(&path, LEVELS).await.map_err(|error| respond(&error, Wanted::Directory))?;
        let line = |entry: &deerflow_sandbox::ListedEntry| {
            if entry.is_dir { format!("{}/", entry.path) } else { entry.path.clone() }
        };
        let mut text = listing.entries.iter().map(line).collect::<Vec<_>>().join("\n");
        if text.is_empty() {
            text = "(empty)".to_owned();
        }
        let total = listing.entries.len();
        let more = if listing.truncated { "more than " } else { "" };
        let marker = |_: usize, shown: usize| {
            format!(
                "\n... [truncated: showing first {shown} of {more}{total} entries. List a subdirectory, or use glob] ..."
            )
        };
        match head_cut(&text, self.bench.limits.ls_output_max_chars, marker) {
            Some(cut) => text = cut,
            None if listing.truncated => text.push_str(&marker(0, total)),
            None => {}
        }
        Ok(ToolOutput::text(text))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[tokio::test]
    async fn two_levels_sorted_with_a_slash_after_directories() {
        let desk = Desk::new();
        desk.file("workspace/b/c/deep.txt", "x");
        desk.file("workspace/a.txt", "x");
        desk.file("workspace/node_modules/x.js", "x");
        let text = desk.ok("ls", json!({"path": "/mnt/user-data/workspace"})).await;
        assert_eq!(text, "/mnt/user-data/workspace/a.txt\n/mnt/user-data/workspace/b/\n/mnt/user-data/workspace/b/c/");
        assert_eq!(desk.ok("ls", json!({"path": "/mnt/user-data/outputs"})).await, "(empty)");
    }

    #[tokio::test]
    async fn missing_directories_and_files_are_errors_not_empty_lists() {
        let desk = Desk::new();
        desk.file("workspace/a.txt", "x");
        assert_eq!(
            desk.fail("ls", json!({"path": "/mnt/user-data/workspace/none"})).await,
            "Directory not found: /mnt/user-data/workspace/none"
        );
        assert_eq!(
            desk.fail("ls", json!({"path": "/mnt/user-data/workspace/a.txt"})).await,
            "Path is not a directory: /mnt/user-data/workspace/a.txt"
        );
        assert!(desk.fail("ls", json!({"path": "/etc"})).await.starts_with("Permission denied: \"/etc\""));
        assert!(desk.fail("ls", json!({"path": "/mnt/user-data/workspace/../../x"})).await.contains("path traversal"));
    }

    #[tokio::test]
    async fn a_long_listing_keeps_its_start_and_counts_the_rest() {
        let desk = Desk::with(|limits| limits.ls_output_max_chars = 220);
        for index in 0..20 {
            desk.file(&format!("workspace/{index:02}.txt"), "x");
        }
        let text = desk.ok("ls", json!({"path": "/mnt/user-data/workspace"})).await;
        assert!(text.starts_with("/mnt/user-data/workspace/00.txt\n"), "{text}");
        assert!(
            text.ends_with("[truncated: showing first 4 of 20 entries. List a subdirectory, or use glob] ..."),
            "{text}"
        );
        assert!(text.chars().count() <= 220);
    }
}
