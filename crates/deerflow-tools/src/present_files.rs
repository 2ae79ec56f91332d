//! `present_files`: hands files to the user.

use crate::workbench::{Wanted, Workbench, explain};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, StateUpdate, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_sandbox::{FileKind, Sandbox, SandboxError, VirtualPath};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const DESCRIPTION: &str = "\
Show finished files to the user, who cannot see your computer otherwise. Only files in /mnt/user-data/outputs can be presented: \
write or copy them there first. Present deliverables once they are ready, several in one call; do not present intermediate files.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Absolute paths of the files, all in /mnt/user-data/outputs.
    filepaths: Vec<String>,
}

pub(crate) struct PresentFiles {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl PresentFiles {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("present_files", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for PresentFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    /// Presenting the same files twice is presenting them once.
    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        if args.filepaths.is_empty() {
            return Err(ToolError::respond("filepaths is empty; name at least one file in /mnt/user-data/outputs"));
        }
        let sandbox = self.bench.sandbox(ctx).await?;
        let mut artifacts: Vec<String> = Vec::new();
        let mut problems = Vec::new();
        for given in &args.filepaths {
            match presentable(&*sandbox, given).await {
                Ok(path) if artifacts.iter().any(|known| known == path.as_str()) => {}
                Ok(path) => artifacts.push(path.to_string()),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            let rest = if args.filepaths.len() > 1 { ". Nothing was presented" } else { "" };
            return Err(ToolError::Respond(format!("{}{rest}", problems.join("; "))));
        }
        let mut output = ToolOutput::text("Successfully presented files");
        output.update = StateUpdate { artifacts: Some(artifacts), ..StateUpdate::none() };
        Ok(output)
    }
}

async fn presentable(sandbox: &dyn Sandbox, given: &str) -> Result<VirtualPath, String> {
    let shown = sandbox.mask(given.trim());
    let path = sandbox.parse_path(&shown).ok().filter(|path| {
        let outputs = VirtualPath::outputs();
        path.is_within(&outputs) && *path != outputs
    });
    let Some(path) = path else {
        return Err(format!("Only files in /mnt/user-data/outputs can be presented: {shown}"));
    };
    match sandbox.stat(&path).await {
        Ok(stat) if stat.kind == FileKind::File => Ok(path),
        Ok(stat) if stat.kind == FileKind::Directory => {
            Err(format!("Path is a directory, not a file: {path}; present the files in it, or an archive of it"))
        }
        Ok(_) => Err(format!("Not a regular file: {path}")),
        Err(error @ SandboxError::NotFound { .. }) => {
            let similar = crate::read_file::similar_names(sandbox, &path).await;
            Err(format!("{}{similar}; write it before you present it", explain(&error, Wanted::File)))
        }
        Err(error) => Err(explain(&error, Wanted::File)),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    const OUT: &str = "/mnt/user-data/outputs";

    #[tokio::test]
    async fn files_become_artifacts_by_their_canonical_paths() {
        let desk = Desk::new();
        desk.file("outputs/a.md", "x");
        desk.file("outputs/sub/b.md", "x");
        let args = json!({"filepaths": [format!("{OUT}//sub/./b.md"), format!("{OUT}/a.md"), format!("{OUT}/a.md")]});
        let output = desk.call("present_files", args).await.unwrap();
        assert_eq!(output.content.text(), "Successfully presented files");
        assert_eq!(output.update.artifacts.unwrap(), [format!("{OUT}/sub/b.md"), format!("{OUT}/a.md")]);
        let host = desk.host("outputs/a.md").to_str().unwrap().to_owned();
        let output = desk.call("present_files", json!({"description": "harmless", "filepaths": host})).await.unwrap();
        assert_eq!(output.update.artifacts.unwrap(), [format!("{OUT}/a.md")]);
    }

    #[tokio::test]
    async fn one_bad_path_presents_nothing_and_is_named() {
        let desk = Desk::new();
        desk.file("outputs/a.md", "x");
        desk.file("workspace/w.md", "x");
        let fail = async |paths: serde_json::Value| desk.fail("present_files", json!({"filepaths": paths})).await;
        assert_eq!(
            fail(json!(["/mnt/user-data/workspace/w.md"])).await,
            "Only files in /mnt/user-data/outputs can be presented: /mnt/user-data/workspace/w.md"
        );
        for outside in
            ["/etc/passwd", "/mnt/user-data/outputs", "/mnt/user-data/outputs-2/a", "/mnt/user-data/outputs/../x"]
        {
            let text = fail(json!([outside])).await;
            assert_eq!(text, format!("Only files in /mnt/user-data/outputs can be presented: {outside}"));
        }
        assert_eq!(
            fail(json!([format!("{OUT}/a.md"), format!("{OUT}/a.html")])).await,
            format!(
                "File not found: {OUT}/a.html; similar names there: a.md; write it before you present it. Nothing was presented"
            )
        );
        assert!(fail(json!([])).await.contains("empty"));
        desk.file("outputs/d/x", "x");
        assert!(fail(json!([format!("{OUT}/d")])).await.starts_with("Path is a directory"));
    }
}
