//! Which skills were read. Their names and paths outlive compaction, their bodies do not: those can be read again.

use deerflow_core::state::SkillEntry;
use deerflow_core::{Message, ThreadState, ToolCall, ToolStatus, text};
use deerflow_sandbox::VirtualPath;
use serde_json::{Value, json};

/// On the result of reading a skill: which one.
const STAMP: &str = "skill_context_entry";
const FILE: &str = "SKILL.md";
const DESCRIPTION_CHARS: usize = 500;

pub(super) struct SkillReads {
    tools: Vec<String>,
    root: String,
}

impl SkillReads {
    pub(super) fn new(tools: Vec<String>, root: String) -> Self {
        let root =
            if root.trim_matches('/').is_empty() { "/mnt/skills" } else { root.trim_end_matches('/') }.to_owned();
        Self { tools, root }
    }

    /// The skill file that a call reads, if it reads one.
    pub(super) fn path_of(&self, call: &ToolCall) -> Option<String> {
        if !self.tools.contains(&call.name) {
            return None;
        }
        let asked = ["path", "file_path"].iter().find_map(|key| call.args.get(*key).and_then(Value::as_str))?;
        let path = VirtualPath::parse_with(asked, std::slice::from_ref(&self.root)).ok()?;
        let below = path.as_str().strip_prefix(self.root.as_str())?.strip_prefix('/')?;
        below.strip_suffix(FILE)?.ends_with('/').then(|| path.to_string())
    }

    /// Marks a successful read with what the file says about itself.
    pub(super) fn stamp(result: &mut Message, path: &str) {
        if result.as_tool().is_none_or(|part| part.status == ToolStatus::Error) {
            return;
        }
        let whole = result.text().into_owned();
        if whole.starts_with("Error:") {
            return;
        }
        let folder = path.rsplit('/').nth(1).unwrap_or_default();
        let name = front_matter(&whole, "name").unwrap_or_else(|| folder.to_owned());
        let about = front_matter(&whole, "description").unwrap_or_default();
        let stamp = json!({"path": path, "name": name, "description": text::head(&about, DESCRIPTION_CHARS)});
        result.additional_kwargs.insert(STAMP.to_owned(), stamp);
    }

    /// Skills read in the last batch that the state does not have, or not as the newest.
    pub(super) fn capture(&self, state: &ThreadState) -> Vec<SkillEntry> {
        let Some(caller) = state.messages.iter().rposition(|m| m.as_ai().is_some()) else { return Vec::new() };
        let mut read: Vec<SkillEntry> = Vec::new();
        for (at, message) in state.messages.iter().enumerate().skip(caller + 1) {
            let Some(part) = message.as_tool().filter(|part| part.status == ToolStatus::Success) else { continue };
            let stamp = message.additional_kwargs.get(STAMP);
            let said = |key: &str| stamp.and_then(|stamp| stamp.get(key)).and_then(Value::as_str);
            let call = state.messages[caller].tool_calls().iter().find(|call| call.id() == part.tool_call_id);
            // The stamp has to be about the file that was asked for: a result can carry anything.
            let Some(path) = call.and_then(|call| self.path_of(call)).filter(|path| said("path") == Some(path)) else {
                continue;
            };
            let folder = path.rsplit('/').nth(1).unwrap_or_default();
            let entry = SkillEntry {
                name: said("name").unwrap_or(folder).to_owned(),
                description: said("description").unwrap_or_default().to_owned(),
                loaded_at: i64::try_from(at).unwrap_or_default(),
                path,
            };
            read.retain(|other| other.path != entry.path);
            read.push(entry);
        }
        let known = state.skill_context.as_deref().unwrap_or_default();
        let newest = &known[known.len().saturating_sub(read.len())..];
        let same = newest.iter().map(|e| &e.path).eq(read.iter().map(|e| &e.path));
        if same { Vec::new() } else { read }
    }
}

/// A value of the front matter, on one line or folded over several.
fn front_matter(text: &str, key: &str) -> Option<String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next()?.trim() != "---" {
        return None;
    }
    let lines: Vec<&str> = lines.take_while(|line| line.trim() != "---").collect();
    let at = lines.iter().position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))?;
    let first = lines[at][key.len() + 1..].trim();
    let folded = matches!(first, ">" | ">-" | "|" | "|-");
    let rest = lines[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t'])).map(|line| line.trim());
    let whole = std::iter::once(if folded { "" } else { first }).chain(rest).collect::<Vec<_>>().join(" ");
    let whole = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = whole.trim_matches(['"', '\'']).to_owned();
    (!whole.is_empty()).then_some(whole)
}
