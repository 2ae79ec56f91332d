//! `grep`: lines by pattern.

use crate::limits::search_cap;
use crate::workbench::{Wanted, Workbench, parse_path, respond};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_sandbox::GrepQuery;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DEFAULT: usize = 100;
const HARD: usize = 500;
const DESCRIPTION: &str = "\
Search text inside files: in one file, or in every text file beneath a directory. The pattern is a regular expression \
(no look-around or back-references) unless `literal` is true, and ignores case unless `case_sensitive` is true. Results are \
`path:line: text`, texts cut to 200 characters. Narrow with `glob`, for example `*.py`. To find files by name use glob.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this is searched for. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// Regular expression, or plain text when `literal` is true.
    pattern: String,
    /// Absolute path of the file or directory to search.
    path: String,
    /// Search only files that match this pattern, for example `**/*.md`.
    #[serde(default)]
    glob: Option<String>,
    /// Take the pattern as plain text. Default false.
    #[serde(default)]
    literal: bool,
    /// Tell upper and lower case apart. Default false.
    #[serde(default)]
    case_sensitive: bool,
    /// Most lines to give. Default 100, at most 500.
    #[serde(default)]
    max_results: Option<i64>,
}

pub(crate) struct Grep {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl Grep {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("grep", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        if args.pattern.is_empty() {
            return Err(ToolError::respond("The pattern is empty; it would match every line"));
        }
        let sandbox = self.bench.sandbox(ctx).await?;
        let path = parse_path(&*sandbox, &args.path)?;
        let query = GrepQuery {
            pattern: args.pattern,
            glob: args.glob.filter(|glob| !glob.trim().is_empty()),
            literal: args.literal,
            case_sensitive: args.case_sensitive,
            max_results: search_cap(args.max_results, DEFAULT, self.bench.limits.grep_max_results, HARD),
        };
        let found = sandbox.grep(&path, query).await.map_err(|error| respond(&error, Wanted::Either))?;
        let count = found.matches.len();
        let mut lines = Vec::with_capacity(count + 3);
        if count == 0 && !found.truncated {
            lines.push(format!("No matches found under {path}"));
        } else {
            let first = if found.truncated { format!(" (showing first {count})") } else { String::new() };
            lines.push(format!("Found {count} matches under {path}{first}"));
            lines.extend(found.matches.iter().map(|hit| format!("{}:{}: {}", hit.path, hit.line_number, hit.line)));
        }
        if found.truncated {
            lines.push("Results truncated. Narrow the path or add a glob filter.".to_owned());
        }
        if found.skipped_large > 0 {
            lines.push(format!(
                "{} large files were not searched; name one as `path` to search it.",
                found.skipped_large
            ));
        }
        Ok(ToolOutput::text(lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    const ROOT: &str = "/mnt/user-data/workspace";

    #[tokio::test]
    async fn br_140_one_file_and_a_directory_are_searched_alike() {
        let desk = Desk::new();
        desk.file("workspace/a.txt", "one\nTwo words\n");
        desk.file("workspace/b.md", "two\n");
        let both = format!("Found 2 matches under {ROOT}\n{ROOT}/a.txt:2: Two words\n{ROOT}/b.md:1: two");
        assert_eq!(desk.ok("grep", json!({"pattern": "two", "path": ROOT})).await, both);
        let file = format!("{ROOT}/a.txt");
        assert_eq!(
            desk.ok("grep", json!({"pattern": "t.o", "path": file})).await,
            format!("Found 1 matches under {file}\n{file}:2: Two words")
        );
        let none = format!("No matches found under {ROOT}");
        assert_eq!(desk.ok("grep", json!({"pattern": "t.o", "path": ROOT, "literal": true})).await, none);
        assert_eq!(desk.ok("grep", json!({"pattern": "TWO", "path": ROOT, "case_sensitive": true})).await, none);
        let text = desk.ok("grep", json!({"pattern": "two", "path": ROOT, "glob": "*.md", "max_results": 1})).await;
        assert!(text.starts_with(&format!("Found 1 matches under {ROOT}")), "{text}");
    }

    #[tokio::test]
    async fn br_116_utf16_and_bom_files_are_searched() {
        let desk = Desk::new();
        let utf16: Vec<u8> = "\u{feff}größe\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        desk.file("workspace/u.txt", utf16);
        let text = desk.ok("grep", json!({"pattern": "^größe$", "path": ROOT})).await;
        assert_eq!(text, format!("Found 1 matches under {ROOT}\n{ROOT}/u.txt:1: größe"));
    }

    #[tokio::test]
    async fn errors_name_what_is_wrong() {
        let desk = Desk::new();
        assert!(desk.fail("grep", json!({"pattern": "(", "path": ROOT})).await.starts_with("Invalid regex pattern: "));
        assert_eq!(
            desk.fail("grep", json!({"pattern": "x", "path": format!("{ROOT}/none")})).await,
            format!("File or directory not found: {ROOT}/none")
        );
        assert!(desk.fail("grep", json!({"pattern": "", "path": ROOT})).await.contains("empty"));
    }
}
