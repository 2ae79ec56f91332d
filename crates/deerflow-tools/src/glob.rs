//! `glob`: paths by pattern.

use crate::limits::search_cap;
use crate::workbench::{Wanted, Workbench, parse_path, respond};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DEFAULT: usize = 200;
const HARD: usize = 1000;
const DESCRIPTION: &str = "\
Find files beneath a directory by a name pattern. `*` and `?` stay within one name, `**` is any depth, `{a,b}` are \
alternatives; a pattern without `/` matches names at any depth. Examples: `*.py`, `src/**/*.ts`, `report-?.{md,pdf}`. Caches, \
logs, build results and version control folders are left out. To search inside files use grep.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why these files are looked for. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Pattern relative to `path`, for example `**/*.md`.
    pattern: String,
    /// Absolute path of the directory to search.
    path: String,
    /// Also give directories. Default false.
    #[serde(default)]
    include_dirs: bool,
    /// Most paths to give. Default 200, at most 1000.
    #[serde(default)]
    max_results: Option<i64>,
}

pub(crate) struct Glob {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl Glob {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("glob", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for Glob {
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
        let max = search_cap(args.max_results, DEFAULT, self.bench.limits.glob_max_results, HARD);
        let found = sandbox
            .glob(&path, &args.pattern, args.include_dirs, max)
            .await
            .map_err(|error| respond(&error, Wanted::Directory))?;
        let count = found.paths.len();
        let text = if count == 0 && !found.truncated {
            format!("No files matched under {path}")
        } else {
            let first = if found.truncated { format!(" (showing first {count})") } else { String::new() };
            let mut lines = vec![format!("Found {count} paths under {path}{first}")];
            lines.extend(found.paths.iter().enumerate().map(|(index, path)| format!("{}. {path}", index + 1)));
            if found.truncated {
                lines.push("Results truncated. Narrow the path or pattern to see fewer matches.".to_owned());
            }
            lines.join("\n")
        };
        Ok(ToolOutput::text(text))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    const ROOT: &str = "/mnt/user-data/workspace";

    #[tokio::test]
    async fn br_140_patterns_mean_the_same_at_every_depth() {
        let desk = Desk::new();
        for name in ["a.py", "src/b.py", "src/deep/er/c.py", "src/x.md"] {
            desk.file(&format!("workspace/{name}"), "x");
        }
        let text = desk.ok("glob", json!({"pattern": "src/**/*.py", "path": ROOT})).await;
        assert_eq!(text, format!("Found 2 paths under {ROOT}\n1. {ROOT}/src/b.py\n2. {ROOT}/src/deep/er/c.py"));
        let text = desk.ok("glob", json!({"pattern": "*.py", "path": ROOT})).await;
        assert!(text.starts_with("Found 3 paths"), "{text}");
    }

    #[tokio::test]
    async fn results_beyond_the_cap_are_said() {
        let desk = Desk::new();
        for index in 0..5 {
            desk.file(&format!("workspace/{index}.txt"), "x");
        }
        let text = desk.ok("glob", json!({"pattern": "*.txt", "path": ROOT, "max_results": "2"})).await;
        assert_eq!(
            text,
            format!(
                "Found 2 paths under {ROOT} (showing first 2)\n1. {ROOT}/0.txt\n2. {ROOT}/1.txt\nResults truncated. Narrow the \
                 path or pattern to see fewer matches."
            )
        );
        let text = desk.ok("glob", json!({"pattern": "*.txt", "path": ROOT, "max_results": 5})).await;
        assert!(text.starts_with(&format!("Found 5 paths under {ROOT}\n")), "{text}");
    }

    #[tokio::test]
    async fn nothing_found_and_impossible_searches() {
        let desk = Desk::new();
        desk.file("workspace/a.txt", "x");
        assert_eq!(
            desk.ok("glob", json!({"pattern": "*.zip", "path": ROOT})).await,
            format!("No files matched under {ROOT}")
        );
        let file = format!("{ROOT}/a.txt");
        assert_eq!(
            desk.fail("glob", json!({"pattern": "*", "path": file})).await,
            format!("Path is not a directory: {file}")
        );
        assert_eq!(
            desk.fail("glob", json!({"pattern": "*", "path": format!("{ROOT}/none")})).await,
            format!("Directory not found: {ROOT}/none")
        );
        assert!(desk.fail("glob", json!({"pattern": "[", "path": ROOT})).await.starts_with("Invalid glob pattern: "));
    }
}
