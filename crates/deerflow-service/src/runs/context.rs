//! Who answers and how: the client's context as options of the lead agent.
//!
//! A client's context is distrusted: only the keys named here are read, and who asks is never one of them.

use super::body::{ConfigBody, RunBody};
use crate::refusal::Refusal;
use deerflow_core::JsonMap;
use deerflow_harness::LeadOptions;
use serde_json::{Value, json};

/// Model turns of a run that asks for no number, as in the original.
const DEFAULT_TURNS: u32 = 100;
/// Efforts that models know.
const EFFORTS: [&str; 4] = ["minimal", "low", "medium", "high"];
/// The agent that is meant when none is named.
const LEAD: &str = "lead_agent";

/// Options of a run.
///
/// `context` wins over `config.context`, which wins over `config.configurable`.
pub(super) fn options(body: &RunBody) -> Result<LeadOptions, Refusal> {
    let config = body.config.as_ref();
    let context = Context {
        layers: [
            ("context", body.context.as_ref()),
            ("config.context", config.and_then(|config| config.context.as_ref())),
            ("config.configurable", config.and_then(|config| config.configurable.as_ref())),
        ],
    };
    let agent = match context.text("agent_name")? {
        Some(name) => agent_name(name)?,
        None => body.assistant_id.as_deref().map(agent_name).transpose()?.flatten(),
    };
    let effort = context.text("reasoning_effort")?.filter(|effort| !effort.is_empty()).map(str::to_owned);
    if let Some(effort) = effort.as_deref().filter(|effort| !EFFORTS.contains(effort)) {
        let message = format!("Input should be one of {}", EFFORTS.join(", "));
        return Err(Refusal::invalid(
            "literal_error",
            json!(["body", "context", "reasoning_effort"]),
            message,
            json!(effort),
        ));
    }
    let silent = context.flag("disable_clarification")?.unwrap_or(false);
    Ok(LeadOptions {
        model: context.text("model_name")?.filter(|name| !name.is_empty()).map(str::to_owned),
        agent,
        plan_mode: context.flag("is_plan_mode")?.unwrap_or(false),
        thinking: context.flag("thinking_enabled")?,
        reasoning_effort: effort,
        recall: context.flag("recall_enabled")?.unwrap_or(false),
        interactive: !silent,
        max_turns: Some(turns(config)),
    })
}

/// `recursion_limit`; what is no positive number is as if it were absent.
fn turns(config: Option<&ConfigBody>) -> u32 {
    let limit = config.and_then(|config| config.recursion_limit.as_ref()).and_then(Value::as_u64);
    limit.filter(|limit| *limit > 0).map_or(DEFAULT_TURNS, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

/// An assistant's id as the name of a custom agent; `None` is the lead agent.
fn agent_name(id: &str) -> Result<Option<String>, Refusal> {
    let name = id.to_lowercase().replace('_', "-");
    if id == LEAD || id.is_empty() || name == "lead-agent" {
        return Ok(None);
    }
    if name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') && name.len() <= 64 {
        return Ok(Some(name));
    }
    let message = "Input should be `lead_agent` or the name of an agent: letters, digits and -";
    Err(Refusal::invalid("value_error", json!(["body", "assistant_id"]), message, json!(id)))
}

struct Context<'a> {
    layers: [(&'static str, Option<&'a JsonMap>); 3],
}

impl<'a> Context<'a> {
    fn find(&self, key: &str) -> Option<(&'static str, &'a Value)> {
        let found = self.layers.iter().filter_map(|(place, layer)| Some((*place, layer.as_ref()?.get(key)?)));
        found.into_iter().find(|(_, value)| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        self.typed(key, Value::as_str, "string_type", "Input should be a valid string")
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        self.typed(key, Value::as_bool, "bool_type", "Input should be a valid boolean")
    }

    fn typed<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        kind: &str,
        message: &str,
    ) -> Result<Option<T>, Refusal> {
        let Some((place, value)) = self.find(key) else { return Ok(None) };
        let path: Vec<&str> = std::iter::once("body").chain(place.split('.')).chain([key]).collect();
        read(value).map(Some).ok_or_else(|| Refusal::invalid(kind, json!(path), message, value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: Value) -> Result<LeadOptions, Refusal> {
        options(&serde_json::from_value(body).unwrap())
    }

    #[test]
    fn the_nearest_context_wins_and_nothing_else_is_read() {
        let got = of(json!({
            "context": {"model_name": "a", "is_plan_mode": true, "user_id": "root", "user_role": "admin"},
            "config": {"configurable": {"model_name": "b", "thinking_enabled": false}, "recursion_limit": 1000}
        }));
        let want = LeadOptions {
            model: Some("a".into()),
            plan_mode: true,
            thinking: Some(false),
            interactive: true,
            max_turns: Some(1000),
            ..LeadOptions::default()
        };
        assert_eq!(got, Ok(want));
    }

    #[test]
    fn a_limit_that_is_none_is_the_default() {
        for limit in [json!(0), json!(-3), json!("many"), json!(null), json!(1.5)] {
            assert_eq!(of(json!({"config": {"recursion_limit": limit}})).unwrap().max_turns, Some(100));
        }
    }

    #[test]
    fn an_assistant_is_an_agent_by_its_name() {
        let agent = |id: &str| of(json!({"assistant_id": id})).map(|options| options.agent);
        assert_eq!(agent("lead_agent"), Ok(None));
        assert_eq!(agent("My_Helper-2"), Ok(Some("my-helper-2".into())));
        assert_eq!(agent("../x").unwrap_err().detail[0]["loc"], json!(["body", "assistant_id"]));
        let both = of(json!({"assistant_id": "one", "context": {"agent_name": "two"}})).unwrap();
        assert_eq!(both.agent.as_deref(), Some("two"));
    }

    #[test]
    fn wrong_types_are_named_where_they_stand() {
        let error = of(json!({"config": {"configurable": {"thinking_enabled": "yes"}}})).unwrap_err();
        assert_eq!(error.detail[0]["loc"], json!(["body", "config", "configurable", "thinking_enabled"]));
        assert_eq!(error.detail[0]["type"], "bool_type");
        assert!(of(json!({"context": {"reasoning_effort": "heroic"}})).is_err());
    }
}
