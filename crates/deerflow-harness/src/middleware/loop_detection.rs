//! Notices a model that goes in circles: warns it, then stops the run with what there is.
//!
//! Everything is read off the conversation since the user's last message, so nothing has to be kept between turns: the same
//! history always gives the same verdict.

use super::decided::Decided;
use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext};
use deerflow_config::Section;
use deerflow_core::{AgentError, ChatRequest, Message, StateUpdate, ThreadState, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Notices a model that repeats itself.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopDetectionConfig {
    /// Whether it looks.
    pub enabled: bool,
    /// Equal sets of calls within the window before a warning.
    #[schemars(range(min = 1))]
    pub warn_threshold: usize,
    /// Equal sets of calls within the window before the run is stopped.
    #[schemars(range(min = 1))]
    pub hard_limit: usize,
    /// Turns looked back at.
    #[schemars(range(min = 1))]
    pub window_size: usize,
    /// Accepted from existing files; nothing is tracked between turns.
    pub max_tracked_threads: usize,
    /// Repeated calls of one tool before a warning.
    #[schemars(range(min = 1))]
    pub tool_freq_warn: usize,
    /// Repeated calls of one tool before the run is stopped.
    #[schemars(range(min = 1))]
    pub tool_freq_hard_limit: usize,
    /// Other limits for certain tools.
    pub tool_freq_overrides: BTreeMap<String, ToolFrequency>,
}

/// Limits of one tool.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFrequency {
    /// Repeated calls before a warning.
    pub warn: usize,
    /// Repeated calls before the run is stopped.
    pub hard_limit: usize,
}

impl Default for LoopDetectionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            warn_threshold: 3,
            hard_limit: 5,
            window_size: 20,
            max_tracked_threads: 100,
            tool_freq_warn: 30,
            tool_freq_hard_limit: 50,
            tool_freq_overrides: BTreeMap::new(),
        }
    }
}

impl Section for LoopDetectionConfig {
    const KEY: &'static str = "loop_detection";
}

/// Warns, then stops.
pub struct LoopDetectionMiddleware {
    config: LoopDetectionConfig,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Warn(String),
    Stop(String),
}

impl LoopDetectionMiddleware {
    /// Limits come from the configuration.
    #[must_use]
    pub fn new(config: LoopDetectionConfig) -> Self {
        Self { config }
    }

    fn judge(&self, messages: &[Arc<Message>]) -> Verdict {
        let start = messages.iter().rposition(|m| m.is_genuine_user()).unwrap_or(0);
        let turns: Vec<&[ToolCall]> =
            messages[start..].iter().map(|m| m.tool_calls()).filter(|c| !c.is_empty()).collect();
        let repeated = self.judge_repetition(&turns);
        if matches!(repeated, Verdict::Stop(_)) {
            return repeated;
        }
        match self.judge_frequency(&turns) {
            Verdict::Fine => repeated,
            verdict => verdict,
        }
    }

    /// The same set of calls again and again. A warning comes when the count reaches the threshold, so once for each time
    /// it climbs there.
    fn judge_repetition(&self, turns: &[&[ToolCall]]) -> Verdict {
        let Some(last) = turns.last().map(|calls| signature(calls)) else { return Verdict::Fine };
        let window = &turns[turns.len().saturating_sub(self.config.window_size)..];
        let count = window.iter().filter(|calls| signature(calls) == last).count();
        if count >= self.config.hard_limit {
            Verdict::Stop(format!("the same tool calls were made {count} times with the same arguments"))
        } else if count == self.config.warn_threshold {
            Verdict::Warn(format!("You have made the same tool calls {count} times with the same arguments."))
        } else {
            Verdict::Fine
        }
    }

    /// One tool over and over. Only repeats count (calls less distinct arguments): a hundred different pages fetched over
    /// hours are honest work.
    fn judge_frequency(&self, turns: &[&[ToolCall]]) -> Verdict {
        let Some(last) = turns.last() else { return Verdict::Fine };
        for tool in last.iter().map(|c| c.name.as_str()).collect::<HashSet<_>>() {
            let limits = self.config.tool_freq_overrides.get(tool);
            let warn = limits.map_or(self.config.tool_freq_warn, |l| l.warn);
            let hard = limits.map_or(self.config.tool_freq_hard_limit, |l| l.hard_limit);
            let repeats = |turns: &[&[ToolCall]]| {
                let keys: Vec<String> =
                    turns.iter().flat_map(|c| c.iter()).filter(|c| c.name == tool).map(key).collect();
                keys.len() - keys.iter().collect::<HashSet<_>>().len()
            };
            let (now, before) = (repeats(turns), repeats(&turns[..turns.len() - 1]));
            if now >= hard {
                return Verdict::Stop(format!("`{tool}` repeated earlier calls {now} times"));
            }
            if now >= warn && before < warn {
                return Verdict::Warn(format!("You have repeated earlier calls of `{tool}` {now} times."));
            }
        }
        Verdict::Fine
    }
}

/// Identity of a set of calls: order does not matter, neither of calls nor of keys.
fn signature(calls: &[ToolCall]) -> String {
    let mut keys: Vec<String> = calls.iter().map(|c| format!("{}:{}", c.name, key(c))).collect();
    keys.sort();
    keys.join("\n")
}

/// What makes two calls of a tool the same.
fn key(call: &ToolCall) -> String {
    let text = |k: &str| call.args.get(k).map(canonical);
    match call.name.as_str() {
        // Reading on in a file is progress; reading the same stretch is not.
        "read_file" => {
            let bucket = |k: &str| call.args.get(k).and_then(Value::as_u64).unwrap_or(0) / 200;
            format!("{:?} {} {}", text("path"), bucket("start_line"), bucket("end_line"))
        }
        "write_file" | "str_replace" => canonical(&Value::Object(call.args.clone())),
        _ => {
            let salient: Vec<_> = ["path", "url", "query", "command", "pattern", "glob", "cmd"]
                .iter()
                .filter_map(|k| Some(format!("{k}={}", text(k)?)))
                .collect();
            if salient.is_empty() { canonical(&Value::Object(call.args.clone())) } else { salient.join("&") }
        }
    }
}

/// JSON with sorted keys; `description` is only for people.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> =
                map.iter().filter(|(k, _)| *k != "description").map(|(k, v)| (k, canonical(v))).collect();
            format!("{sorted:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        other => other.to_string(),
    }
}

#[async_trait]
impl Middleware for LoopDetectionMiddleware {
    fn name(&self) -> &'static str {
        "LoopDetectionMiddleware"
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if let Verdict::Warn(reason) = self.judge(&state.messages) {
            let text = format!(
                "[LOOP DETECTED] {reason} The results will not change. Try something else, or give your answer with what you have."
            );
            request.messages.push(Arc::new(Message::human(text).with_name("loop_warning").hidden()));
        }
        next.run(request).await
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(last) = state.last_ai().filter(|m| !m.tool_calls().is_empty()) else { return Ok(Hook::none()) };
        let verdict = self.judge(&state.messages);
        let (action, reason) = match &verdict {
            Verdict::Fine => return Ok(Hook::none()),
            Verdict::Warn(reason) => ("warn", reason),
            Verdict::Stop(reason) => ("stop", reason),
        };
        let names: Vec<_> = last.tool_calls().iter().map(|c| c.name.clone()).collect();
        let changes = json!({"reason": reason, "tools": names, "message_id": last.id()});
        Decided { tag: "loop_detection", name: self.name(), hook: "after_model", action, changes }.record(ctx);
        // The warning goes with the next request.
        let Verdict::Stop(reason) = verdict else { return Ok(Hook::none()) };
        ctx.set_stop_reason("loop_capped");
        ctx.events.custom(json!({"type": "loop_detected", "reason": reason, "tools": names})).await;
        let note = format!("[Stopped: {reason}. The calls of this turn were not run.]");
        Ok(Hook::update(StateUpdate::messages([super::closing::without_calls(last, &note, "stop")])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn turn(name: &str, args: Value) -> Arc<Message> {
        Arc::new(Message::ai_calls("", vec![ToolCall::new("i", name, args.as_object().cloned().unwrap())]))
    }
    fn judge(turns: impl IntoIterator<Item = Arc<Message>>) -> Vec<&'static str> {
        let mw = LoopDetectionMiddleware::new(LoopDetectionConfig::default());
        let mut history = vec![Arc::new(Message::human("go"))];
        turns
            .into_iter()
            .map(|turn| {
                history.push(turn);
                match mw.judge(&history) {
                    Verdict::Fine => "fine",
                    Verdict::Warn(_) => "warn",
                    Verdict::Stop(_) => "stop",
                }
            })
            .collect()
    }

    /// BR-065: the same call ten times; key order and the display text do not matter.
    #[test]
    fn the_same_call_is_warned_about_then_stopped() {
        let turns = (0..6).map(|n| {
            turn(
                "bash",
                if n % 2 == 0 {
                    json!({"command": "ls", "description": n.to_string()})
                } else {
                    json!({"description": "", "command": "ls"})
                },
            )
        });
        assert_eq!(judge(turns), ["fine", "fine", "warn", "fine", "stop", "stop"]);
    }

    /// BR-065: 120 different fetches are honest work.
    #[test]
    fn many_different_calls_of_one_tool_are_not_touched() {
        assert!(
            judge((0..120).map(|n| turn("web_fetch", json!({"url": format!("https://x.example/{n}")}))))
                .iter()
                .all(|v| *v == "fine")
        );
    }

    #[test]
    fn a_tool_that_repeats_itself_beyond_the_window_is_stopped() {
        // Thirty distinct calls over and over: never three equal ones in a window of twenty.
        let verdicts = judge((0..90).map(|n| turn("grep", json!({"pattern": (n % 30).to_string(), "path": "/"}))));
        assert_eq!(verdicts[58], "fine");
        assert_eq!(verdicts[59], "warn");
        assert_eq!(verdicts[79], "stop");
    }

    #[test]
    fn reading_on_is_progress_and_a_new_message_starts_afresh() {
        let reads = (0..10)
            .map(|n| turn("read_file", json!({"path": "a", "start_line": n * 200 + 1, "end_line": n * 200 + 200})));
        assert!(judge(reads).iter().all(|v| *v == "fine"));
        let same = || turn("bash", json!({"command": "ls"}));
        assert_eq!(judge([same(), same(), Arc::new(Message::human("again")), same(), same()]), ["fine"; 5]);
    }
}
