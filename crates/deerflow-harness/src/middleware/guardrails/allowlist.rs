//! A policy by the names of tools alone.

use super::config::PolicyConfigError;
use super::provider::{Decision, GuardrailProvider, GuardrailRequest, PolicyError};
use async_trait::async_trait;
use deerflow_config::KeyPath;
use deerflow_core::JsonMap;
use serde_json::Value;
use std::collections::BTreeSet;

/// Code of both of its refusals.
const NOT_ALLOWED: &str = "oap.tool_not_allowed";

/// Allows the tools on one list, except those on another. Without the first list every tool is on it; an empty one allows none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowlistProvider {
    allowed: Option<BTreeSet<String>>,
    denied: BTreeSet<String>,
}

impl AllowlistProvider {
    /// Allows `allowed` less `denied`.
    #[must_use]
    pub fn new(allowed: Option<BTreeSet<String>>, denied: BTreeSet<String>) -> Self {
        Self { allowed, denied }
    }

    /// From `provider.config`: `allowed_tools` and `denied_tools`, lists of names.
    ///
    /// # Errors
    /// Every problem found, with its place beneath `provider.config`.
    pub fn from_config(config: &JsonMap) -> Result<Self, Vec<PolicyConfigError>> {
        const KEYS: [&str; 2] = ["allowed_tools", "denied_tools"];
        let mut problems = Vec::new();
        let mut lists = [None, None];
        for (key, value) in config {
            let path = KeyPath::root().key(key);
            match KEYS.iter().position(|known| known == key) {
                None => problems.push(PolicyConfigError::unknown_key(path, key, &KEYS)),
                // The original reads a null as no list.
                Some(_) if value.is_null() => {}
                Some(at) => match names(value, &path, /*star*/ false) {
                    Ok(list) => lists[at] = Some(list),
                    Err(found) => problems.extend(found),
                },
            }
        }
        let [allowed, denied] = lists;
        if problems.is_empty() { Ok(Self::new(allowed, denied.unwrap_or_default())) } else { Err(problems) }
    }
}

/// A list of names; `star`: `*` is one of them.
pub(super) fn names(value: &Value, path: &KeyPath, star: bool) -> Result<BTreeSet<String>, Vec<PolicyConfigError>> {
    let Value::Array(items) = value else {
        return Err(vec![PolicyConfigError::new(path.clone(), "expected a list of names")]);
    };
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        match item.as_str().map(str::trim) {
            Some("*") if !star => problems.push(
                PolicyConfigError::new(path.index(at), "`*` is no name")
                    .with_help("write `\"*\"` or `true` in place of the list to mean all"),
            ),
            Some(name) if !name.is_empty() => {
                names.insert(name.to_owned());
            }
            _ => problems.push(PolicyConfigError::new(path.index(at), "expected a name")),
        }
    }
    if problems.is_empty() { Ok(names) } else { Err(problems) }
}

#[async_trait]
impl GuardrailProvider for AllowlistProvider {
    fn name(&self) -> &str {
        "allowlist"
    }

    async fn evaluate(&self, request: &GuardrailRequest) -> Result<Decision, PolicyError> {
        let tool = &request.tool_name;
        let decision = if self.denied.contains(tool) {
            Decision::deny(NOT_ALLOWED, format!("tool '{tool}' is denied"))
        } else if self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(tool)) {
            Decision::deny(NOT_ALLOWED, format!("tool '{tool}' is not on the list of allowed tools"))
        } else {
            Decision::allow("oap.allowed")
        };
        Ok(decision.by("allowlist"))
    }
}
