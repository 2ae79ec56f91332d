//! Which tools bring text from outside, and how such a text is rewritten wherever it stands in a result.

use super::tool_transforms::record_transform;
use deerflow_agent::ToolOutcome;
use deerflow_core::{Content, ContentBlock, Message};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Built-in tools whose results come from the network.
const BUILTIN: [&str; 4] = ["web_fetch", "web_search", "image_search", "web_capture"];

/// Tools whose results are remote content: the built-in web tools and every tool of an MCP server.
#[derive(Debug, Clone, Default)]
pub struct RemoteTools {
    mcp: Arc<BTreeSet<String>>,
}

impl RemoteTools {
    /// The web tools and these tools of MCP servers, by the names the model calls them.
    #[must_use]
    pub fn new(mcp: impl IntoIterator<Item = String>) -> Self {
        Self { mcp: Arc::new(mcp.into_iter().collect()) }
    }

    /// Whether this tool's results are remote content.
    #[must_use]
    pub fn contains(&self, tool: &str) -> bool {
        BUILTIN.contains(&tool) || self.mcp.contains(tool)
    }
}

/// The content with every text rewritten, block by block; `None` when nothing changes. Provider keys of a text block stay.
pub(super) fn rewrite_texts(content: &Content, mut rewrite: impl FnMut(&str) -> Option<String>) -> Option<Content> {
    match content {
        Content::Text(text) => rewrite(text).map(Content::Text),
        Content::Blocks(blocks) => {
            let mut changed = false;
            let rewritten = blocks
                .iter()
                .map(|block| match block.text().and_then(&mut rewrite) {
                    None => block.clone(),
                    Some(text) => {
                        changed = true;
                        with_text(block, text)
                    }
                })
                .collect();
            changed.then_some(Content::Blocks(rewritten))
        }
    }
}

/// A text block with another text.
pub(super) fn with_text(block: &ContentBlock, text: String) -> ContentBlock {
    match block {
        ContentBlock::Raw(Value::Object(map)) => {
            let mut map = map.clone();
            map.insert("text".to_owned(), Value::String(text));
            ContentBlock::Raw(Value::Object(map))
        }
        ContentBlock::Raw(_) => ContentBlock::Raw(Value::String(text)),
        ContentBlock::Text(_) | ContentBlock::ImageUrl(_) => ContentBlock::Text(text),
    }
}

/// Rewrites the tool message of an outcome and those it carries beside, and notes on each what was done.
pub(super) fn rewrite_outcome(
    outcome: &mut ToolOutcome,
    kind: &str,
    by: &str,
    rewrite: impl Fn(&Content) -> Option<Content>,
) {
    let apply = |message: &mut Message| {
        if let Some(content) = rewrite(&message.content) {
            message.content = content;
            record_transform(message, kind, by);
        }
    };
    apply(&mut outcome.message);
    for message in outcome.update.messages.iter_mut().filter(|message| message.as_tool().is_some()) {
        apply(Arc::make_mut(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn remote_are_the_web_tools_and_those_of_mcp_servers() {
        let remote = RemoteTools::new(["jira_search".to_owned()]);
        for tool in ["web_fetch", "web_search", "image_search", "web_capture", "jira_search"] {
            assert!(remote.contains(tool), "{tool}");
        }
        for tool in ["bash", "read_file", "web_fetch2", ""] {
            assert!(!remote.contains(tool), "{tool}");
        }
    }

    #[test]
    fn every_form_of_text_is_rewritten_and_the_rest_stays() {
        let shout = |text: &str| text.contains('a').then(|| text.to_uppercase());
        let content: Content = serde_json::from_value(json!([
            {"type": "text", "text": "a"},
            "ab",
            {"type": "text", "text": "ac", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:a"}},
            {"type": "thinking", "thinking": "a"},
            {"type": "text", "text": "x"}
        ]))
        .unwrap();
        assert_eq!(
            serde_json::to_value(rewrite_texts(&content, shout).unwrap()).unwrap(),
            json!([
                {"type": "text", "text": "A"},
                "AB",
                {"type": "text", "text": "AC", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:a"}},
                {"type": "thinking", "thinking": "a"},
                {"type": "text", "text": "x"}
            ])
        );
        assert_eq!(rewrite_texts(&Content::from("xyz"), shout), None);
    }
}
