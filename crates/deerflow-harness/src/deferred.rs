//! Deferred tools: callable, but not shown to the model until it has looked for them.
//!
//! A long tool list costs tokens in every request. The model sees the names in the description of `tool_search`, asks for
//! what it needs, and gets those schemas for the rest of the user's turn.

use async_trait::async_trait;
use deerflow_core::state::PromotedTools;
use deerflow_core::{Effects, JsonMap, StateUpdate, ThreadState, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_tools::{parse_args, tool_spec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;

/// Name of the tool that finds deferred tools.
pub const TOOL_SEARCH: &str = "tool_search";
/// Most tools that a search by words gives.
const FOUND: usize = 5;

/// The deferred tools of an agent. There is always at least one: without deferred tools there is no catalogue, and no search.
pub struct DeferredCatalogue {
    tools: Vec<Arc<dyn Tool>>,
    names: HashSet<String>,
    hash: String,
}

impl DeferredCatalogue {
    /// A catalogue of these tools; `None` for none. Of several with one name the first counts.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Option<Arc<Self>> {
        let mut names = HashSet::new();
        let tools: Vec<_> = tools.into_iter().filter(|tool| names.insert(tool.spec().name.clone())).collect();
        if tools.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = tools
            .iter()
            .map(|t| json!([t.spec().name, t.spec().description, t.spec().parameters]).to_string())
            .collect();
        lines.sort();
        let digest = Sha256::digest(lines.join("\n").as_bytes());
        let hash = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(Arc::new(Self { tools, names, hash }))
    }

    /// The tools, in the order given.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }
    /// Identity of the catalogue; a promotion is good for this one only.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }
    /// Whether a tool is deferred and the state does not make it visible.
    #[must_use]
    pub fn hides(&self, name: &str, state: &ThreadState) -> bool {
        self.names.contains(name)
            && !state
                .promoted
                .as_ref()
                .is_some_and(|p| p.catalog_hash == self.hash && p.names.iter().any(|n| n == name))
    }

    /// Tools for a query: `select:A,B` by name, all of them; otherwise the best few by words or regular expression.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<&Arc<dyn Tool>> {
        if let Some(names) = query.trim().strip_prefix("select:") {
            let wanted: Vec<&str> = names.split(',').map(str::trim).collect();
            return wanted.iter().filter_map(|name| self.tools.iter().find(|t| t.spec().name == *name)).collect();
        }
        let query = query.to_lowercase();
        let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let pattern = regex::RegexBuilder::new(query.trim()).case_insensitive(true).size_limit(1 << 16).build().ok();
        let mut scored: Vec<(usize, &Arc<dyn Tool>)> = self
            .tools
            .iter()
            .map(|tool| (score(tool.spec(), &words, pattern.as_ref()), tool))
            .filter(|(score, _)| *score > 0)
            .collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        scored.into_iter().take(FOUND).map(|(_, tool)| tool).collect()
    }
}

fn score(spec: &ToolSpec, words: &[&str], pattern: Option<&regex::Regex>) -> usize {
    let (name, about) = (spec.name.to_lowercase(), spec.description.to_lowercase());
    let of_word = |word: &str| {
        if name == word {
            10
        } else if name.split(|c: char| !c.is_alphanumeric()).any(|part| part == word) {
            6
        } else if name.contains(word) {
            4
        } else {
            2 * usize::from(about.contains(word))
        }
    };
    let by_pattern = pattern.filter(|p| !p.as_str().is_empty() && p.is_match(&name)).map_or(0, |_| 5);
    words.iter().copied().map(of_word).sum::<usize>() + by_pattern
}

/// Finds deferred tools and makes them visible.
pub struct ToolSearch {
    spec: ToolSpec,
    catalogue: Arc<DeferredCatalogue>,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// `select:name_a,name_b` for tools you know by name, or words (or a regular expression) for what you need.
    query: String,
}

impl ToolSearch {
    /// The search over this catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<DeferredCatalogue>) -> Self {
        let names: Vec<&str> = catalogue.tools.iter().map(|t| t.spec().name.as_str()).collect();
        let about = format!(
            "Makes further tools callable for the rest of this turn and shows how to call them. They cannot be called before. Tools \
             there are: {}.",
            names.join(", ")
        );
        Self { spec: tool_spec::<Args>(TOOL_SEARCH, &about), catalogue }
    }
}

#[async_trait]
impl Tool for ToolSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::Pure
    }
    async fn call(&self, _ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let Args { query } = parse_args(&self.spec, args)?;
        let found = self.catalogue.search(&query);
        if found.is_empty() {
            return Ok(ToolOutput::text(format!(
                "No tools found for {}. Use the names in this tool's description with `select:`.",
                Value::String(query)
            )));
        }
        let schemas: Vec<&ToolSpec> = found.iter().map(|tool| tool.spec()).collect();
        let promoted = PromotedTools {
            catalog_hash: self.catalogue.hash.clone(),
            names: schemas.iter().map(|spec| spec.name.clone()).collect(),
            turn_id: None,
        };
        let update = StateUpdate { promoted: Some(promoted), ..StateUpdate::none() };
        let text = serde_json::to_string_pretty(&schemas).unwrap_or_default();
        Ok(ToolOutput { update, ..ToolOutput::text(text) })
    }
}

#[cfg(test)]
mod tests;
