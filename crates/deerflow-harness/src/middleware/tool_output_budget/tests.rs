use super::*;
use crate::middleware::testing::{Script, context, script};
use deerflow_agent::{Agent, Start};
use deerflow_core::message::kwargs;
use deerflow_core::*;
use deerflow_sandbox::{HostProvider, SandboxConfig};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::collections::BTreeMap;

struct Rig {
    dir: tempfile::TempDir,
    middleware: ToolOutputBudgetMiddleware,
}

impl Rig {
    fn new(config: ToolOutputConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let provider =
            HostProvider::new(dir.path(), SandboxConfig { min_free_mb: 0, ..SandboxConfig::default() }).unwrap();
        Self { middleware: ToolOutputBudgetMiddleware::new(config, Some(Arc::new(provider))), dir }
    }

    async fn result(&self, message: &Message) -> Option<String> {
        self.middleware.budgeted(&context(), message).await.map(|(content, _)| content.text().into_owned())
    }

    /// Names and texts of the saved outputs.
    fn saved(&self) -> BTreeMap<String, String> {
        let mut saved = BTreeMap::new();
        let mut open = vec![self.dir.path().to_owned()];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.parent().unwrap().ends_with("outputs/.tool-results") {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                saved.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
        saved
    }
}

fn unsaved(config: ToolOutputConfig) -> ToolOutputBudgetMiddleware {
    ToolOutputBudgetMiddleware::new(config, None)
}

#[tokio::test]
async fn an_oversized_result_is_saved_and_described() {
    let rig = Rig::new(ToolOutputConfig::default());
    let text = "a line of output\n".repeat(1000);
    let preview = rig.result(&Message::tool(text.clone(), "call-1", "bash")).await.unwrap();
    let saved = rig.saved();
    let (name, content) = saved.iter().next().unwrap();
    assert_eq!((saved.len(), content), (1, &text));
    assert!(
        preview.starts_with(&format!(
            "[Full bash output saved to /mnt/user-data/outputs/.tool-results/{name} (17000 chars"
        )),
        "{preview}"
    );
    let digest = name.strip_prefix("bash-").unwrap().strip_suffix(".log").unwrap();
    assert!(digest.len() == 12 && digest.chars().all(|c| c.is_ascii_hexdigit()));
}

#[tokio::test]
async fn a_call_that_is_run_again_leaves_one_file() {
    let rig = Rig::new(ToolOutputConfig::default());
    let text = "x\n".repeat(10_000);
    let message = Message::tool(text.clone(), "c", "mcp/../../Search.Everything!");
    assert_eq!(rig.result(&message).await, rig.result(&message).await);
    assert_eq!(rig.saved().len(), 1);
    assert!(rig.saved().keys().all(|name| name.starts_with("Search_Everything_-") && name.ends_with(".txt")));
    rig.result(&Message::tool(text, "another call", "x")).await.unwrap();
    assert_eq!(rig.saved().len(), 2);
}

#[tokio::test]
async fn thresholds_exemptions_and_overrides_are_kept() {
    let config = ToolOutputConfig {
        tool_overrides: BTreeMap::from([("off".into(), 0), ("low".into(), 1000)]),
        ..ToolOutputConfig::default()
    };
    let rig = Rig::new(config);
    let tool = |chars: usize, name: &str| Message::tool("界".repeat(chars), "c", name);
    assert_eq!(rig.result(&tool(12_000, "any")).await, None, "characters count, not bytes");
    assert!(rig.result(&tool(12_001, "any")).await.is_some());
    assert!(rig.result(&tool(1001, "low")).await.is_some());
    assert_eq!(rig.result(&tool(30_000, "off")).await, None);
    assert_eq!(rig.result(&tool(90_000, "read_file")).await, None);
    assert_eq!(rig.result(&Message::human("x".repeat(50_000))).await, None);
    assert_eq!(rig.saved().len(), 2);
    let cut = rig.result(&tool(30_001, "off")).await.unwrap();
    assert!(cut.contains("characters of off output left out"), "{cut}");
    assert_eq!(rig.saved().len(), 2, "not saved, and cut all the same");
}

#[tokio::test]
async fn images_are_left_alone_and_text_blocks_are_not() {
    let rig = Rig::new(ToolOutputConfig::default());
    let text = ContentBlock::Text("x ".repeat(20_000));
    let with_image = Content::Blocks(vec![text.clone(), ContentBlock::ImageUrl("data:image/png;base64,AA".into())]);
    assert_eq!(rig.result(&Message::tool(with_image, "c", "t")).await, None);
    assert!(rig.result(&Message::tool(Content::Blocks(vec![text]), "c", "t")).await.is_some());
}

/// BR-110: when nothing can be saved, the error at the end is still there.
#[tokio::test]
async fn without_a_disk_the_ends_are_kept() {
    let text = format!("{}\nerror: it failed\n[exit code: 1]", "x".repeat(500_000));
    let message = Message::tool_error(text, "c", "bash");
    let (cut, kind) = unsaved(ToolOutputConfig::default()).budgeted(&context(), &message).await.unwrap();
    assert_eq!(kind, "truncated");
    assert!(cut.text().ends_with("error: it failed\n[exit code: 1]"));
    assert!(cut.text().chars().count() <= 30_000);

    let blocked = Rig::new(ToolOutputConfig::default());
    std::fs::remove_dir_all(blocked.dir.path()).unwrap();
    std::fs::write(blocked.dir.path(), "in the way").unwrap();
    assert_eq!(blocked.result(&message).await.as_deref(), Some(&*cut.text()));
}

#[tokio::test]
async fn a_directory_that_leads_out_is_never_written_to() {
    let rig = Rig::new(ToolOutputConfig { storage_subdir: "../../../..".into(), ..ToolOutputConfig::default() });
    let result = rig.result(&Message::tool("x\n".repeat(20_000), "c", "t")).await.unwrap();
    assert!(result.contains("no saved copy"), "{result}");
    assert_eq!(rig.result(&Message::tool("x\n".repeat(8000), "c", "t")).await, None);
}

/// BR-111: a limit of N, N-1 ASCII bytes and then a wide character.
#[tokio::test]
async fn a_limit_inside_a_character_does_no_harm() {
    for limit in 200..210 {
        let config = ToolOutputConfig {
            externalize_min_chars: 0,
            fallback_max_chars: limit,
            fallback_head_chars: limit,
            fallback_tail_chars: limit,
            ..ToolOutputConfig::default()
        };
        let text = format!("{}{}", "a".repeat(limit - 1), "界".repeat(500));
        let (cut, _) = unsaved(config).budgeted(&context(), &Message::tool(text, "c", "t")).await.unwrap();
        assert!(cut.text().chars().count() <= limit && cut.text().ends_with('界'), "{limit}");
    }
}

struct Flood(ToolSpec);

#[async_trait]
impl Tool for Flood {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    async fn call(&self, _ctx: &ToolContext, _args: JsonMap) -> Result<ToolOutput, ToolError> {
        let extra = Message::tool("extra\n".repeat(5000), "other", "flood").with_id("extra");
        Ok(ToolOutput {
            artifact: Some(json!({"kept": true})),
            additional_kwargs: json!({"meta": 1}).as_object().cloned().unwrap(),
            update: StateUpdate::messages([extra]),
            ..ToolOutput::error("Error: all of it\n".repeat(5000))
        })
    }
}

async fn run(config: ToolOutputConfig, history: Vec<Message>) -> (Rig, Arc<Script>, Arc<ThreadState>) {
    let Rig { dir, middleware } = Rig::new(config.clone());
    let spec = ToolSpec { name: "flood".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let call = ToolCall::new("c1", "flood", JsonMap::new());
    let script = script(vec![Message::ai_calls("", vec![call])]);
    let agent = Agent::builder(script.clone())
        .tools([Arc::new(Flood(spec)) as Arc<dyn Tool>])
        .middleware([Arc::new(middleware) as Arc<dyn Middleware>])
        .build()
        .unwrap();
    let outcome = agent.run(&context(), Start::Input(StateUpdate::messages(history))).await.unwrap();
    let rig = Rig { dir, middleware: unsaved(config) };
    (rig, script, outcome.state)
}

#[tokio::test]
async fn around_a_tool_the_content_changes_and_nothing_else() {
    let (rig, _, state) = run(ToolOutputConfig::default(), vec![Message::human("go")]).await;
    let results: Vec<_> = state.messages.iter().filter(|m| m.as_tool().is_some()).collect();
    assert_eq!(results.len(), 2, "the result, and what the tool wrote besides");
    assert!(results.iter().all(|m| m.text().starts_with("[Full flood output saved to ")), "{results:?}");
    assert_eq!(rig.saved().len(), 2);
    let part = results[0].as_tool().unwrap();
    assert_eq!((part.status, part.artifact.clone()), (ToolStatus::Error, Some(json!({"kept": true}))));
    assert_eq!(results[0].additional_kwargs["meta"], json!(1));
    assert_eq!(results[1].id(), "extra");

    let off = ToolOutputConfig { enabled: false, ..ToolOutputConfig::default() };
    let (rig, _, state) = run(off, vec![Message::human("go")]).await;
    assert!(rig.saved().is_empty() && state.messages.iter().any(|m| m.text().len() == 85_000));
}

#[tokio::test]
async fn old_results_and_writes_are_shortened_in_requests_only() {
    let write = json!({"path": "a.md", "content": "w".repeat(5000)}).as_object().cloned().unwrap();
    let read = json!({"path": "a.md"}).as_object().cloned().unwrap();
    let history = vec![
        Message::human("earlier"),
        Message::ai_calls(
            "",
            vec![ToolCall::new("w", "write_file", write.clone()), ToolCall::new("o", "old", JsonMap::new())],
        ),
        Message::tool("OK", "w", "write_file"),
        Message::tool("old\n".repeat(20_000), "o", "old").with_kwarg(kwargs::TOOL_META, json!({"status": "success"})),
        Message::ai_calls("", vec![ToolCall::new("r", "read_file", read)]),
        Message::tool("r".repeat(40_000), "r", "read_file"),
        Message::human("go"),
    ];
    let config = ToolOutputConfig { keep_recent_writes: 0, ..ToolOutputConfig::default() };
    let (_, script, state) = run(config, history).await;
    let requests = script.requests();
    let sent = &requests[0].messages;
    assert!(sent[1].tool_calls()[0].args["content"].as_str().unwrap().starts_with("[5000 characters not shown"));
    assert!(sent[3].text().chars().count() <= 30_000 && sent[3].text().contains("left out"));
    assert_eq!(sent[3].additional_kwargs, state.messages[3].additional_kwargs);
    assert_eq!(sent[5].text().len(), 40_000, "the tool is exempt");
    // The state has everything, and the rest of the request is the state's own.
    assert_eq!(state.messages[1].tool_calls()[0].args, write);
    assert_eq!(state.messages[3].text().len(), 80_000);
    for index in [0, 2, 4, 5, 6] {
        assert!(Arc::ptr_eq(&sent[index], &state.messages[index]), "{index}");
    }
}
