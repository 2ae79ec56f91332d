//! A tool of your own: `read_file` over documents in memory. The agent has no folders here; it reads what the tool gives.
//!
//! ```text
//! cargo run -p deerflow --example own_tool
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use async_trait::async_trait;
use deerflow::prelude::*;
use deerflow::tools::{parse_args, tool_spec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Documents by path.
struct Library {
    spec: ToolSpec,
    documents: BTreeMap<&'static str, &'static str>,
}

/// What the model may say; the doc comments become the descriptions in the tool's schema.
#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Path of the document.
    path: String,
    /// First line to show, from 1.
    start_line: Option<usize>,
}

#[async_trait]
impl Tool for Library {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// After a crash it may simply run again.
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, _ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        // Wrong arguments are answered with what is right.
        let Args { path, start_line } = parse_args(&self.spec, args)?;
        let skip = start_line.unwrap_or(1).saturating_sub(1);
        match self.documents.get(path.as_str()) {
            Some(text) => Ok(ToolOutput::text(text.lines().skip(skip).collect::<Vec<_>>().join("\n"))),
            // A failure that the model can act on is a result, not the end of the run.
            None => Err(ToolError::respond(format!(
                "there is no document {path:?}; there are: {:?}",
                self.documents.keys()
            ))),
        }
    }
}

const NOTES: &str = "/mnt/user-data/uploads/notes.md";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let library = Library {
        spec: tool_spec::<Args>("read_file", "Reads a document of the library."),
        documents: BTreeMap::from([(
            NOTES,
            "# Interview notes\n\nThe shop lost 12 percent of its sales in March because the new checkout is slow.\n\n\
             Deliveries came late in April: the carrier had a strike, and 340 customers cancelled their orders.\n",
        )]),
    };
    let agent = create_deerflow_agent(Arc::new(OfflineModel::new())).tool(library).build()?;
    let task =
        format!("<current_uploads>\n- notes.md (0.2 KB)\n  Path: {NOTES}\n</current_uploads>\n\nWhy did sales fall?");
    let done = agent.run(&conversation("own-tool")?, say(task)).await?;
    for message in &done.state.messages {
        for call in message.tool_calls() {
            println!("called {} {}", call.name, serde_json::Value::Object(call.args.clone()));
        }
    }
    println!("{}", done.state.last_ai().map(|m| m.text().into_owned()).unwrap_or_default());
    Ok(())
}
