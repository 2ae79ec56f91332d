use super::*;
use crate::middleware::rig::{Canned, Ran, calling, run_with};
use async_trait::async_trait;
use deerflow_agent::Middleware;
use deerflow_config::{Loader, Registry};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, JsonMap, Message, Principal, StateUpdate, Tool, ToolStatus, UserId};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

fn map(value: Value) -> JsonMap {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

/// Answers always the same, and keeps what it was asked.
struct Fixed {
    answer: Result<Decision, PolicyError>,
    asked: Mutex<Vec<Value>>,
}

#[async_trait]
impl GuardrailProvider for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    async fn evaluate(&self, request: &GuardrailRequest) -> Result<Decision, PolicyError> {
        self.asked.lock().unwrap().push(serde_json::to_value(request).unwrap());
        self.answer.clone()
    }
}

fn fixed(answer: Result<Decision, PolicyError>) -> Arc<Fixed> {
    Arc::new(Fixed { answer, asked: Mutex::default() })
}

async fn guarded(gates: Vec<GuardrailMiddleware>, tool: &Arc<Canned>) -> Ran {
    let chain = gates.into_iter().map(|gate| Arc::new(gate) as Arc<dyn Middleware>).collect();
    let name = tool.spec().name.clone();
    let input = StateUpdate::messages([Message::human("q")]);
    let replies = vec![calling(&name, json!({"secret": "hunter2"}))];
    run_with(chain, vec![tool.clone()], replies, input, |ctx| {
        ctx.principal = Principal {
            user_role: Some("admin".into()),
            oauth_provider: Some("github".into()),
            oauth_id: Some("7".into()),
            channel_user_id: Some("U1".into()),
            is_internal: true,
            authz_attributes: map(json!({"team": "red"})),
        };
    })
    .await
    .unwrap()
}

fn denied(ran: &Ran) -> String {
    let result = ran.results()[0];
    assert_eq!(result.as_tool().unwrap().status, ToolStatus::Error);
    assert_eq!(result.additional_kwargs[kwargs::TOOL_META]["error_type"], json!("permission"));
    result.text().into_owned()
}

#[tokio::test]
async fn the_policy_is_told_who_calls_what() {
    let policy = fixed(Ok(Decision::allow("ok")));
    let tool = Canned::text("bash", "fine");
    let ran = guarded(vec![GuardrailMiddleware::new(policy.clone(), true, Some("pass-1".into()))], &tool).await;
    assert_eq!(ran.results()[0].text(), "fine");
    let mut asked = policy.asked.lock().unwrap()[0].clone();
    let time = asked["timestamp"].take();
    assert!(time.as_str().unwrap().ends_with('Z') && time.as_str().unwrap().starts_with("20"));
    assert_eq!(
        asked,
        json!({
            "tool_name": "bash", "tool_input": {"secret": "hunter2"}, "agent_id": "pass-1", "thread_id": "thread",
            "run_id": "run", "tool_call_id": "call-1", "is_subagent": false, "timestamp": null,
            "user_id": UserId::local().as_str(), "user_role": "admin", "oauth_provider": "github", "oauth_id": "7",
            "channel_user_id": "U1", "is_internal": true, "authz_attributes": {"team": "red"},
        })
    );
    assert_eq!(ran.custom, Vec::<Value>::new(), "an allowed call is not told");
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_is_told_without_its_arguments() {
    let long = "x".repeat(900);
    let policy = fixed(Ok(Decision::deny("oap.budget", long).by("p1")));
    let tool = Canned::text("bash", "fine");
    let ran = guarded(vec![GuardrailMiddleware::new(policy, true, None)], &tool).await;
    let text = denied(&ran);
    assert_eq!(tool.call_count(), 0);
    assert!(text.starts_with("Error: Guardrail denied: tool 'bash' was blocked (oap.budget). Reason: xxx"), "{text}");
    assert!(text.chars().count() < 700);
    let event = &ran.custom[0];
    assert_eq!(
        (event["type"].as_str(), event["action"].as_str()),
        (Some("middleware:guardrail"), Some("deny_tool_call"))
    );
    assert_eq!(event["changes"]["policy_id"], json!("p1"));
    assert_eq!(event["changes"]["reasons"][0]["message"].as_str().unwrap().chars().count(), 500);
    assert!(!event.to_string().contains("hunter2"));
    assert_eq!(
        ran.results()[0].additional_kwargs[AUTHORIZATION_OUTCOME],
        json!([{"provider": "fixed", "allow": false, "code": "oap.budget", "policy_id": "p1"}])
    );
}

#[tokio::test]
async fn a_denial_without_a_reason_has_the_default_code() {
    let tool = Canned::text("bash", "fine");
    let ran = guarded(vec![GuardrailMiddleware::new(fixed(Ok(Decision::default())), true, None)], &tool).await;
    assert!(denied(&ran).contains("blocked (oap.denied). Reason: the policy does not allow it."));
}

#[tokio::test]
async fn a_policy_that_fails_denies_or_allows_as_configured() {
    let failing = || fixed(Err(PolicyError::Failed("no route to host".into())));
    let tool = Canned::text("bash", "fine");
    let ran = guarded(vec![GuardrailMiddleware::new(failing(), true, None)], &tool).await;
    assert!(denied(&ran).contains("(oap.evaluator_error). Reason: the policy failed: no route to host."));
    assert_eq!(ran.custom[0]["action"], json!("deny_tool_call"));
    assert_eq!(tool.call_count(), 0);

    let ran = guarded(vec![GuardrailMiddleware::new(failing(), false, None)], &tool).await;
    assert_eq!(ran.results()[0].text(), "fine");
    assert_eq!(ran.custom[0]["action"], json!("allow_tool_call_after_provider_error"));
    assert_eq!(ran.custom[0]["changes"]["reasons"][0]["code"], json!("oap.evaluator_error"));
}

struct Bad(bool);

#[async_trait]
impl GuardrailProvider for Bad {
    fn name(&self) -> &str {
        "bad"
    }
    async fn evaluate(&self, _: &GuardrailRequest) -> Result<Decision, PolicyError> {
        assert!(!self.0, "a fault of the policy");
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_hangs_or_panics_has_failed() {
    let tool = Canned::text("bash", "fine");
    for (panics, reason) in [(true, "the policy panicked"), (false, "no answer within 30 s")] {
        let ran = guarded(vec![GuardrailMiddleware::new(Arc::new(Bad(panics)), true, None)], &tool).await;
        assert!(denied(&ran).contains(reason));
    }
    assert_eq!(tool.call_count(), 0);
}

#[tokio::test]
async fn a_cancellation_is_no_failure_of_the_policy() {
    let gate: Arc<dyn Middleware> = Arc::new(GuardrailMiddleware::new(Arc::new(Bad(false)), false, None));
    let tool = Canned::text("bash", "fine");
    let input = StateUpdate::messages([Message::human("q")]);
    let replies = vec![calling("bash", json!({}))];
    let running = run_with(vec![gate], vec![tool.clone()], replies, input, |ctx| {
        let token = ctx.cancel.clone();
        std::thread::spawn(move || token.cancel());
    });
    assert!(matches!(running.await, Err(AgentError::Cancelled)));
    assert_eq!(tool.call_count(), 0);
}

#[tokio::test]
async fn allow_lists_and_deny_lists() {
    let verdict = async |config: Value, tool: &str| {
        let policy = AllowlistProvider::from_config(&map(config)).unwrap();
        let policy = fixed_request(tool, &policy).await;
        (policy.allow, policy.code().unwrap().to_owned())
    };
    let (yes, no) = ((true, "oap.allowed".to_owned()), (false, "oap.tool_not_allowed".to_owned()));
    assert_eq!(verdict(json!({}), "bash").await, yes);
    assert_eq!(verdict(json!({"allowed_tools": null}), "bash").await, yes);
    assert_eq!(verdict(json!({"allowed_tools": ["bash"]}), "bash").await, yes);
    assert_eq!(verdict(json!({"allowed_tools": ["bash"]}), "ls").await, no);
    assert_eq!(verdict(json!({"denied_tools": ["bash"]}), "bash").await, no);
    assert_eq!(verdict(json!({"denied_tools": ["bash"]}), "ls").await, yes);
    assert_eq!(verdict(json!({"allowed_tools": ["bash"], "denied_tools": ["bash"]}), "bash").await, no);
}

/// BR-248
#[tokio::test]
async fn an_empty_allow_list_allows_nothing() {
    let policy = AllowlistProvider::from_config(&map(json!({"allowed_tools": []}))).unwrap();
    assert!(!fixed_request("bash", &policy).await.allow);
}

async fn fixed_request(tool: &str, policy: &dyn GuardrailProvider) -> Decision {
    let ctx = crate::middleware::testing::context();
    let request = GuardrailRequest {
        tool_name: tool.into(),
        tool_input: JsonMap::new(),
        agent_id: None,
        thread_id: ctx.thread_id.clone(),
        run_id: ctx.run_id.clone(),
        tool_call_id: "c".into(),
        is_subagent: false,
        timestamp: String::new(),
        user_id: ctx.user_id.clone(),
        principal: Principal::default(),
    };
    policy.evaluate(&request).await.unwrap()
}

fn table() -> Value {
    json!({"roles": {
        "admin": {},
        "user": {
            "tools": {"allow": ["bash", "ls", "web_search"], "deny": ["ls"]},
            "models": {"allow": ["small", "medium"]},
            "sandbox": {"allow": false},
            "skills": {"allow": "*", "deny": ["dangerous"]},
            "mcp_servers": {"allow": true},
        },
    }})
}

fn rbac(fail_closed: bool) -> Authorization {
    Authorization::new(Arc::new(RbacProvider::from_config(&map(table())).unwrap()), "user", fail_closed)
}

fn of(role: &str) -> Principal {
    Principal { user_role: Some(role.into()), ..Principal::default() }
}

#[tokio::test]
async fn roles_allow_and_deny() {
    let ask = async |role: &str, resource: &str, target: &str| {
        let decision = rbac(true).authorize(&UserId::local(), &of(role), (resource, "any"), target).await.unwrap();
        (decision.allow, decision.code().unwrap().to_owned())
    };
    let (yes, no, none) = ((true, "authz.allowed"), (false, "authz.denied"), (true, "authz.no_policy"));
    for (role, resource, target, (allow, code)) in [
        ("user", "tool", "bash", yes),
        ("user", "tool", "ls", no),
        ("user", "tool", "write_file", no),
        ("user", "tools", "bash", yes),
        ("user", "model", "small", yes),
        ("user", "model", "large", no),
        ("user", "sandbox", "*", no),
        ("user", "skill", "any", yes),
        ("user", "skill", "dangerous", no),
        ("user", "mcp_server", "x", yes),
        ("user", "route", "x", none),
        ("admin", "tool", "bash", none),
    ] {
        assert_eq!(ask(role, resource, target).await, (allow, code.to_owned()), "{role} {resource} {target}");
    }
}

#[tokio::test]
async fn the_sandbox_is_one_thing_without_a_name() {
    let allows = async |rule: Value| {
        let table = map(json!({"roles": {"user": {"sandbox": rule}}}));
        let auth = Authorization::new(Arc::new(RbacProvider::from_config(&table).unwrap()), "user", true);
        auth.allows_sandbox(&UserId::local(), &Principal::default()).await
    };
    for (rule, allowed) in [
        (json!({}), true),
        (json!({"allow": true}), true),
        (json!({"allow": ["*"]}), true),
        (json!({"allow": false}), false),
        (json!({"allow": []}), false),
        (json!({"deny": ["*"]}), false),
    ] {
        assert_eq!(allows(rule.clone()).await, allowed, "{rule}");
    }
}

#[tokio::test]
async fn an_unknown_or_empty_role_or_resource_is_a_failure_and_fails_closed() {
    let user = UserId::local();
    let ask = |role: &'static str, resource: &'static str| async move {
        rbac(true).authorize(&UserId::local(), &of(role), (resource, "call"), "x").await.unwrap_err()
    };
    assert_eq!(ask("guest", "tool").await, PolicyError::UnknownRole { role: "guest".into() });
    assert_eq!(ask(" ", "tool").await, PolicyError::EmptyRole);
    assert_eq!(ask("user", "planet").await, PolicyError::UnknownResource { resource: "planet".into() });
    assert!(!rbac(true).allows(&user, &of("guest"), ("tool", "call"), "bash").await);
    assert!(rbac(false).allows(&user, &of("guest"), ("tool", "call"), "bash").await);
}

fn tools() -> Vec<Arc<dyn Tool>> {
    ["web_search", "ls", "bash", "write_file"].map(|name| Canned::text(name, "") as Arc<dyn Tool>).into()
}

fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.spec().name.as_str()).collect()
}

#[tokio::test]
async fn tools_are_filtered_before_the_agent_has_them_in_their_order() {
    let filtered = async |auth: &Authorization, principal: &Principal| {
        names(&auth.filter_tools(&UserId::local(), principal, tools()).await).join(" ")
    };
    assert_eq!(filtered(&rbac(true), &Principal::default()).await, "web_search bash", "the default role");
    assert_eq!(filtered(&rbac(true), &of("admin")).await, "web_search ls bash write_file");
    assert_eq!(filtered(&rbac(true), &of("guest")).await, "");
    assert_eq!(filtered(&rbac(false), &of("guest")).await, "web_search ls bash write_file");
}

/// Lists what it was not asked about, and says something else when asked for one.
struct Odd {
    listed: Vec<String>,
    allowed: Vec<String>,
}

#[async_trait]
impl AuthorizationProvider for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    async fn authorize(&self, request: &AuthzRequest) -> Result<Decision, PolicyError> {
        assert_eq!((request.resource.as_str(), request.action.as_str()), ("model", "use"));
        let allow = self.allowed.contains(&request.target);
        Ok(if allow { Decision::allow("y") } else { Decision::deny("n", "") })
    }
    async fn filter_resources(&self, _: &Subject, _: &str, _: &[String]) -> Result<Vec<String>, PolicyError> {
        Ok(self.listed.clone())
    }
}

#[tokio::test]
async fn a_list_with_strangers_is_malformed() {
    let odd = || Arc::new(Odd { listed: vec!["bash".into(), "rm".into()], allowed: vec![] });
    let filtered = async |fail_closed| {
        let auth = Authorization::new(odd(), "user", fail_closed);
        auth.filter_tools(&UserId::local(), &Principal::default(), tools()).await.len()
    };
    assert_eq!((filtered(true).await, filtered(false).await), (0, 4));
}

#[tokio::test]
async fn a_denied_model_gives_way_to_the_first_that_is_listed_and_allowed() {
    let configured = ["large", "medium", "small"].map(str::to_owned);
    let choose = async |auth: &Authorization, principal: &Principal, wanted: &str| {
        auth.choose_model(&UserId::local(), principal, wanted, &configured).await
    };
    let user = Principal::default();
    assert_eq!(choose(&rbac(true), &user, "small").await.unwrap(), "small");
    assert_eq!(choose(&rbac(true), &user, "large").await.unwrap(), "medium");
    let odd = |fail_closed, allowed: &[&str]| {
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        Authorization::new(
            Arc::new(Odd { listed: vec!["medium".into(), "small".into()], allowed }),
            "user",
            fail_closed,
        )
    };
    assert_eq!(choose(&odd(true, &["small"]), &user, "large").await.unwrap(), "small", "listed is not enough");
    assert_eq!(choose(&odd(true, &[]), &user, "large").await, Err(ModelDenied::NoneAllowed { model: "large".into() }));
    assert_eq!(choose(&odd(false, &[]), &user, "large").await.unwrap(), "large");
    let failed = choose(&rbac(true), &of("guest"), "large").await.unwrap_err();
    assert_eq!(failed.to_string(), "model large may not be used: the policy failed: role \"guest\" is not configured");
    assert_eq!(choose(&rbac(false), &of("guest"), "large").await.unwrap(), "large");
}

#[tokio::test]
async fn authorisation_is_asked_first_and_exempts_what_the_harness_made() {
    let second = fixed(Ok(Decision::allow("ok")));
    let user_table = Authorization::new(
        Arc::new(RbacProvider::from_config(&map(json!({"roles": {"admin": {"tools": {"allow": ["ls"]}}}}))).unwrap()),
        "admin",
        true,
    );
    let gates = |second: &Arc<Fixed>| {
        vec![user_table.middleware(["tool_search".to_owned()]), GuardrailMiddleware::new(second.clone(), true, None)]
    };
    let ran = guarded(gates(&second), &Canned::text("bash", "fine")).await;
    assert!(denied(&ran).contains("(authz.denied). Reason: role 'admin' may not use tool 'bash'."));
    assert_eq!(second.asked.lock().unwrap().len(), 0);
    assert_eq!(ran.custom[0]["name"], json!("GuardrailMiddleware[authorization]"));

    let ran = guarded(gates(&second), &Canned::text("tool_search", "found")).await;
    assert_eq!(ran.results()[0].text(), "found");
    let words = &ran.results()[0].additional_kwargs[AUTHORIZATION_OUTCOME];
    assert_eq!((&words[0]["code"], &words[1]["code"]), (&json!("authz.infrastructure_tool"), &json!("ok")));
}

fn load(yaml: &str) -> Result<deerflow_config::Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yaml");
    std::fs::write(&file, yaml).unwrap();
    Loader::new(Registry::new().with::<AuthorizationConfig>().with::<GuardrailsConfig>())
        .env([("HOME".to_owned(), "/nowhere".to_owned())])
        .cwd(dir.path())
        .file(file)
        .load()
        .map_err(|error| {
            error.diagnostics.iter().map(|d| format!("{d} ({})\n", d.help.as_deref().unwrap_or("-"))).collect()
        })
}

#[test]
fn both_sections_name_their_policy_by_name_or_by_the_class_path_of_the_original() {
    for name in ["rbac", "deerflow.authz.rbac:RbacAuthorizationProvider"] {
        let yaml = format!(
            "authorization:\n  enabled: true\n  provider:\n    use: {name}\n    config:\n      roles:\n        user: {{}}\n"
        );
        let config = load(&yaml).unwrap();
        assert!(Authorization::from_config(&config.section::<AuthorizationConfig>()).unwrap().is_some());
    }
    for name in ["allowlist", "deerflow.guardrails.builtin:AllowlistProvider"] {
        let yaml = format!(
            "guardrails:\n  enabled: true\n  provider:\n    use: {name}\n    config:\n      denied_tools: [bash]\n"
        );
        let config = load(&yaml).unwrap();
        assert!(GuardrailMiddleware::from_config(&config.section::<GuardrailsConfig>()).unwrap().is_some());
    }
    let off = load("guardrails:\n  provider: {use: allowlist}\n").unwrap();
    assert!(GuardrailMiddleware::from_config(&off.section::<GuardrailsConfig>()).unwrap().is_none());
    assert!(Authorization::from_config(&off.section::<AuthorizationConfig>()).unwrap().is_none());
    assert_eq!(load("guardrails:\n  enabled: true\n").unwrap().warnings().len(), 1);
}

#[test]
fn problems_are_found_when_the_file_is_loaded() {
    let authz = |rest: &str| load(&format!("authorization:\n  enabled: true\n{rest}")).unwrap_err();
    let roles =
        |rest: &str| authz(&format!("  provider:\n    use: rbac\n    config:\n      roles:\n        user:\n{rest}"));
    for (found, wanted) in [
        (authz(""), "authorisation is on and no policy is configured"),
        (authz("  provider: {use: rbak}\n"), "unknown policy `rbak`, did you mean `rbac`? (known policies: `rbac`)"),
        (authz("  provider: {use: 'my.module:Class'}\n"), "unknown policy `my.module:Class` (known policies: `rbac`)"),
        (authz("  provider: {use: allowlist}\n"), "it belongs under `guardrails`"),
        (authz("  provider: {use: rbac}\n"), "authorization.provider.config: missing key `roles`"),
        (authz("  provider: {use: rbac, config: {roles: {}}}\n"), "no role is configured"),
        (
            authz("  provider: {use: rbac, config: {roles: {user: {}}, role: 1}}\n"),
            "config.role: unknown key, did you mean `roles`?",
        ),
        (
            authz("  provider: {use: rbac, config: {roles: {admin: {}}}}\n"),
            "default_role: unknown role `user` (configured roles: `admin`)",
        ),
        (
            authz("  default_role: ''\n  provider: {use: rbac, config: {roles: {user: {}}}}\n"),
            "the default role is empty",
        ),
        (authz("  provider: {use: rbac, config: {roles: {user: {}, '': {}}}}\n"), "the name of a role is empty"),
        (authz("  provider: {use: rbac, config: {roles: {user: 1}}}\n"), "expected a mapping from resource to"),
        (
            authz("  default_rol: x\n  provider: {use: rbac, config: {roles: {user: {}}}}\n"),
            "did you mean `default_role`?",
        ),
        (roles("          tool: {allow: [bash]}\n"), "roles.user.tool: unknown key, did you mean `tools`?"),
        (roles("          mcp_server: {}\n"), "did you mean `mcp_servers`?"),
        (roles("          tools: [bash]\n"), "expected a mapping with `allow` and `deny`"),
        (roles("          tools: {allowed: [bash]}\n"), "tools.allowed: unknown key, did you mean `allow`?"),
        (roles("          tools: {allow: null}\n"), "expected a list of names, `true`, `false` or `\"*\"`"),
        (roles("          tools: {allow: all}\n"), "expected a list of names, `true`, `false` or `\"*\"`"),
        (roles("          tools: {deny: '*'}\n"), "to deny all, write `allow: false`"),
        (roles("          tools: {allow: [1]}\n"), "tools.allow[0]: expected a name"),
        (roles("          tools: {allow: ['*']}\n"), "`*` is no name"),
        (
            load("guardrails:\n  provider: {use: allowlist, config: {allow_tools: [x]}}\n").unwrap_err(),
            "config.allow_tools: unknown key, did you mean `allowed_tools`?",
        ),
        (load("guardrails:\n  provider: {use: rbac}\n").unwrap_err(), "it belongs under `authorization`"),
        (
            load("guardrails:\n  provider: {use: allowlist, config: {denied_tools: bash}}\n").unwrap_err(),
            "expected a list of names",
        ),
    ] {
        assert!(found.contains(wanted), "{wanted:?} in {found}");
    }
}

#[test]
fn several_problems_are_told_at_once() {
    let config = map(json!({"roles": {"user": {"tool": {}, "models": {"allow": 1}}}}));
    let paths: BTreeSet<String> =
        RbacProvider::from_config(&config).unwrap_err().iter().map(|problem| problem.path.to_string()).collect();
    assert_eq!(paths, BTreeSet::from(["roles.user.tool".to_owned(), "roles.user.models.allow".to_owned()]));
}
