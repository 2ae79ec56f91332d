//! Roles and what each may use. The action plays no part: whoever may use a thing may do all with it.

use super::allowlist::names;
use super::config::PolicyConfigError;
use super::provider::{AuthorizationProvider, AuthzRequest, Decision, PolicyError, Subject};
use async_trait::async_trait;
use deerflow_config::KeyPath;
use deerflow_core::JsonMap;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Resource as it is asked for, and its key in the table.
const RESOURCES: [(&str, &str); 6] = [
    ("tool", "tools"),
    ("model", "models"),
    ("skill", "skills"),
    ("sandbox", "sandbox"),
    ("mcp_server", "mcp_servers"),
    ("route", "routes"),
];
/// The one resource whose things have no names: its target is `*`, and lists may have that.
const SANDBOX: &str = "sandbox";
const RULE_KEYS: [&str; 2] = ["allow", "deny"];

/// What a role may use of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    /// `None` is all.
    allow: Option<BTreeSet<String>>,
    /// Wins over `allow`.
    deny: BTreeSet<String>,
}

impl Rule {
    fn allows(&self, name: &str) -> bool {
        !self.deny.contains(name) && self.allow.as_ref().is_none_or(|allow| allow.contains(name))
    }
}

/// The table of roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RbacProvider {
    /// Role to key of the resource to rule.
    roles: BTreeMap<String, BTreeMap<&'static str, Rule>>,
}

impl RbacProvider {
    /// From `provider.config`: `roles`, a mapping from role to `tools`, `models`, `skills`, `sandbox`, `mcp_servers`, `routes`, each with
    /// `allow` (absent, `true` or `"*"` is all, `false` none, a list only those) and `deny` (a list, which wins).
    ///
    /// # Errors
    /// Every problem found, with its place beneath `provider.config`.
    pub fn from_config(config: &JsonMap) -> Result<Self, Vec<PolicyConfigError>> {
        let root = KeyPath::root();
        let mut problems = Vec::new();
        for key in config.keys().filter(|key| *key != "roles") {
            problems.push(PolicyConfigError::unknown_key(root.key(key), key, &["roles"]));
        }
        let mut roles = BTreeMap::new();
        match config.get("roles") {
            Some(Value::Object(table)) => {
                for (role, resources) in table {
                    let path = root.key("roles").key(role);
                    if role.trim().is_empty() {
                        problems.push(PolicyConfigError::new(path, "the name of a role is empty"));
                        continue;
                    }
                    let rules = Self::rules(resources, &path, &mut problems);
                    roles.insert(role.clone(), rules);
                }
                if table.is_empty() {
                    problems.push(PolicyConfigError::new(root.key("roles"), "no role is configured"));
                }
            }
            Some(_) => {
                problems.push(PolicyConfigError::new(root.key("roles"), "expected a mapping from role to rules"))
            }
            None => problems.push(PolicyConfigError::new(root, "missing key `roles`")),
        }
        if problems.is_empty() { Ok(Self { roles }) } else { Err(problems) }
    }

    fn rules(value: &Value, path: &KeyPath, problems: &mut Vec<PolicyConfigError>) -> BTreeMap<&'static str, Rule> {
        let mut rules = BTreeMap::new();
        let Value::Object(resources) = value else {
            let problem =
                PolicyConfigError::new(path.clone(), "expected a mapping from resource to `allow` and `deny`");
            problems.push(problem.with_help("`{}` is a role without limits"));
            return rules;
        };
        for (key, value) in resources {
            let path = path.key(key);
            match RESOURCES.iter().find(|(_, known)| known == key) {
                Some((_, known)) => {
                    rules.insert(*known, Self::rule(value, &path, *known == SANDBOX, problems));
                }
                None => problems.push(PolicyConfigError::unknown_key(path, key, &RESOURCES.map(|(_, known)| known))),
            }
        }
        rules
    }

    fn rule(value: &Value, path: &KeyPath, star: bool, problems: &mut Vec<PolicyConfigError>) -> Rule {
        let mut rule = Rule::default();
        let Value::Object(map) = value else {
            problems.push(PolicyConfigError::new(path.clone(), "expected a mapping with `allow` and `deny`"));
            return rule;
        };
        for (key, value) in map {
            let path = path.key(key);
            let list = match (key.as_str(), value) {
                ("allow", Value::Bool(true)) => Ok(None),
                ("allow", Value::Bool(false)) => Ok(Some(BTreeSet::new())),
                ("allow", Value::String(all)) if all == "*" => Ok(None),
                ("allow" | "deny", Value::Array(_)) => names(value, &path, star).map(Some),
                ("allow", _) => Err(vec![
                    PolicyConfigError::new(path, "expected a list of names, `true`, `false` or `\"*\"`")
                        .with_help("leave the key out to allow all"),
                ]),
                ("deny", _) => Err(vec![
                    PolicyConfigError::new(path, "expected a list of names")
                        .with_help("to deny all, write `allow: false`"),
                ]),
                _ => Err(vec![PolicyConfigError::unknown_key(path, key, &RULE_KEYS)]),
            };
            match list {
                Ok(Some(list)) if key == "deny" => rule.deny = list,
                Ok(list) => rule.allow = list,
                Err(found) => problems.extend(found),
            }
        }
        rule
    }

    /// The roles there are.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// The rule for a resource; `None` where the role has none.
    fn rule_for(&self, role: &str, resource: &str) -> Result<Option<&Rule>, PolicyError> {
        if role.trim().is_empty() {
            return Err(PolicyError::EmptyRole);
        }
        let rules = self.roles.get(role).ok_or_else(|| PolicyError::UnknownRole { role: role.to_owned() })?;
        match RESOURCES.iter().find(|(singular, key)| *singular == resource || *key == resource) {
            Some((_, key)) => Ok(rules.get(key)),
            None => Err(PolicyError::UnknownResource { resource: resource.to_owned() }),
        }
    }
}

#[async_trait]
impl AuthorizationProvider for RbacProvider {
    fn name(&self) -> &str {
        "rbac"
    }

    async fn authorize(&self, request: &AuthzRequest) -> Result<Decision, PolicyError> {
        let role = &request.principal.role;
        let decision = match self.rule_for(role, &request.resource)? {
            None => Decision::allow("authz.no_policy"),
            Some(rule) if rule.allows(&request.target) => Decision::allow("authz.allowed"),
            Some(_) => {
                let what = format!("role '{role}' may not use {} '{}'", request.resource, request.target);
                Decision::deny("authz.denied", what)
            }
        };
        Ok(decision.by("rbac"))
    }

    async fn filter_resources(
        &self,
        principal: &Subject,
        resource: &str,
        names: &[String],
    ) -> Result<Vec<String>, PolicyError> {
        let rule = self.rule_for(&principal.role, resource)?;
        Ok(names.iter().filter(|name| rule.is_none_or(|rule| rule.allows(name))).cloned().collect())
    }
}
