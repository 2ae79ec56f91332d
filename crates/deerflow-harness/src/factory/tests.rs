use super::*;
use crate::middleware::TerminalResponseMiddleware;
use crate::middleware::testing::{self, script};
use async_trait::async_trait;
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::json;

macro_rules! named {
    ($($name:ident),+) => { $(
        struct $name;
        #[async_trait]
        impl Middleware for $name {
            fn name(&self) -> &'static str { stringify!($name) }
        }
    )+ };
}
named!(A, B, C, D);

struct Named(ToolSpec);

impl Named {
    fn tool(name: &str, description: &str) -> Arc<dyn Tool> {
        Arc::new(Self(ToolSpec { name: name.into(), description: description.into(), parameters: json!({}) }))
    }
}

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    async fn call(&self, _: &ToolContext, _: JsonMap) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("ok"))
    }
}

fn factory() -> AgentFactory {
    create_deerflow_agent(script(vec![]))
}

fn names(agent: &Agent) -> Vec<&'static str> {
    agent.chain().iter().map(|m| m.name().trim_end_matches("Middleware")).collect()
}

fn with_extras(extras: impl IntoIterator<Item = Extra>) -> Result<Vec<&'static str>, String> {
    factory().extra_middleware(extras).build().map(|agent| names(&agent)).map_err(|error| error.to_string())
}

const PLAIN: [&str; 4] = ["DanglingToolCall", "ToolErrorHandling", "LoopDetection", "Clarification"];

#[test]
fn nothing_said_gives_the_default_features() {
    let agent = factory().build().unwrap();
    assert_eq!(names(&agent), PLAIN);
    assert_eq!(agent.tools().iter().map(|t| t.spec().name.as_str()).collect::<Vec<_>>(), ["ask_clarification"]);
    assert_eq!((agent.name(), agent.system_prompt()), ("default", None));
}

#[test]
fn features_fill_their_places_in_the_one_order() {
    let features = RuntimeFeatures {
        sandbox: Feature::custom(A),
        auto_title: Feature::On,
        loop_detection: Feature::custom(B),
        guardrail: Feature::custom(C),
        vision: Feature::custom(D),
        ..RuntimeFeatures::default()
    };
    let agent = factory().features(features).plan_mode(true).build().unwrap();
    assert_eq!(
        names(&agent),
        ["A", "DanglingToolCall", "C", "ToolErrorHandling", "Todo", "Title", "D", "B", "Clarification"]
    );
}

#[test]
fn the_first_broken_rule_is_reported() {
    let on = |change: fn(&mut RuntimeFeatures)| {
        let mut features = RuntimeFeatures { sandbox: Feature::Off, ..RuntimeFeatures::default() };
        change(&mut features);
        factory().features(features)
    };
    let none = || Vec::<Arc<dyn Middleware>>::new();
    type Check = fn(&FactoryError) -> bool;
    let cases: [(AgentFactory, Check); 8] = [
        (
            // Two rules are broken; the first counts.
            on(|_| {}).middleware(none()).extra_middleware([A]),
            |e| matches!(e, FactoryError::TakeoverWithFeatures),
        ),
        (factory().middleware(none()).extra_middleware([A]), |e| matches!(e, FactoryError::TakeoverWithExtras)),
        (on(|f| f.guardrail = Feature::On), |e| matches!(e, FactoryError::GuardrailNeedsInstance)),
        (on(|f| f.summarization = Feature::On), |e| matches!(e, FactoryError::SummarizationNeedsInstance)),
        (on(|f| f.sandbox = Feature::On), |e| matches!(e, FactoryError::NoSandbox)),
        (on(|f| f.vision = Feature::On), |e| matches!(e, FactoryError::NoImages)),
        (factory().max_turns(0), |e| matches!(e, FactoryError::Build(BuildError::NoTurns))),
        (factory().tools([Named::tool("", "")]), |e| matches!(e, FactoryError::Build(BuildError::UnnamedTool))),
    ];
    for (at, (factory, check)) in cases.into_iter().enumerate() {
        let error = factory.build().err().unwrap();
        assert!(check(&error), "case {at}: {error:?}");
    }
}

#[test]
fn a_take_over_is_exactly_what_was_given() {
    let agent = factory()
        .middleware([Arc::new(A) as Arc<dyn Middleware>])
        .extra_middleware(Vec::<Extra>::new())
        .build()
        .unwrap();
    assert_eq!(names(&agent), ["A"]);
    assert_eq!(agent.tools().len(), 0, "not even the question to the user");
    assert_eq!(names(&factory().middleware([]).build().unwrap()), Vec::<&str>::new());
}

#[test]
fn the_callers_tool_wins_a_name() {
    let own = Named::tool("ask_clarification", "mine");
    let again = Named::tool("ask_clarification", "mine, later");
    let agent = factory().tools([Named::tool("x", ""), own, again]).build().unwrap();
    let tools: Vec<_> = agent.tools().iter().map(|t| (t.spec().name.as_str(), t.spec().description.as_str())).collect();
    assert_eq!(tools, [("x", ""), ("ask_clarification", "mine")]);
}

#[test]
fn extras_stand_where_their_anchors_say() {
    // Without an anchor: before the question, in the order given.
    assert_eq!(
        with_extras([A.into(), B.into()]).unwrap(),
        ["DanglingToolCall", "ToolErrorHandling", "LoopDetection", "A", "B", "Clarification"]
    );
    assert_eq!(
        with_extras([Extra::next::<DanglingToolCallMiddleware>(A), Extra::prev::<DanglingToolCallMiddleware2>(B)]),
        Err("anchors not found: B at DanglingToolCallMiddleware2; is the feature that brings the anchor switched on?"
            .into())
    );
    // A chain of anchors, given in the wrong order, one of them at an extra without an anchor.
    assert_eq!(
        with_extras([
            Extra::next::<B>(A),
            Extra::prev::<ToolErrorHandlingMiddleware>(B),
            C.into(),
            Extra::prev::<C>(D)
        ])
        .unwrap(),
        ["DanglingToolCall", "B", "A", "ToolErrorHandling", "LoopDetection", "D", "C", "Clarification"]
    );
    // After the last place is before it.
    assert_eq!(
        with_extras([Extra::next::<ClarificationMiddleware>(A)]).unwrap(),
        ["DanglingToolCall", "ToolErrorHandling", "LoopDetection", "A", "Clarification"]
    );
    // A stand-in is found under the name of what it stands for.
    let features = RuntimeFeatures { sandbox: Feature::Off, loop_detection: Feature::custom(C), ..Default::default() };
    let agent = factory().features(features).extra_middleware([Extra::prev::<LoopDetectionMiddleware>(A)]).build();
    assert_eq!(names(&agent.unwrap()), ["DanglingToolCall", "ToolErrorHandling", "A", "C", "Clarification"]);
}
named!(DanglingToolCallMiddleware2);

#[test]
fn ambiguous_circular_and_absent_anchors_are_refused_by_name() {
    type L = LoopDetectionMiddleware;
    for pair in [
        [Extra::next::<L>(A), Extra::next::<L>(B)],
        [Extra::prev::<L>(A), Extra::prev::<L>(B)],
        [Extra::next::<L>(A), Extra::prev::<L>(B)],
    ] {
        assert_eq!(
            with_extras(pair).unwrap_err(),
            "A and B are both anchored at LoopDetectionMiddleware: anchor one of them at the other"
        );
    }
    assert_eq!(
        with_extras([Extra::next::<B>(A), Extra::next::<A>(B)]).unwrap_err(),
        "circular anchors: A at B, B at A; anchor one of them at a middleware of the chain"
    );
    let off = with_extras([Extra::next::<TerminalResponseMiddleware>(A)]).unwrap_err();
    assert!(off.starts_with("anchors not found: A at TerminalResponseMiddleware;"), "{off}");
}

fn answer_call(args: Value) -> Message {
    let mut message = Message::ai("");
    message.as_ai_mut().unwrap().tool_calls =
        vec![ToolCall::new("c", "Review", args.as_object().cloned().unwrap_or_default())];
    message
}

fn review() -> Value {
    json!({"title": "Review", "type": "object", "required": ["score"], "properties": {"score": {"type": "integer"}}})
}

#[tokio::test]
async fn the_answer_comes_in_the_format_or_the_model_is_told_what_is_wrong() {
    let model =
        script(vec![Message::ai("seven"), answer_call(json!({"score": "seven"})), answer_call(json!({"score": 7}))]);
    let agent = create_deerflow_agent(model.clone()).response_format(review()).build().unwrap();
    let start = || testing::says("how good?");
    let done = agent.run(&testing::context(), start()).await.unwrap();
    assert_eq!(done.state.structured_response, Some(json!({"score": 7})));
    {
        let requests = model.requests();
        assert_eq!(
            requests.iter().map(|r| r.tool_choice.clone()).collect::<Vec<_>>()[..2],
            [ToolChoice::Auto, ToolChoice::Required]
        );
        let fault = requests[2].messages.iter().rev().find(|m| m.as_tool().is_some()).unwrap().text().into_owned();
        assert!(fault.contains("does not fit the format: /score"), "{fault}");
    }
    // The next run starts without the last one's answer, and gives up asking after a while.
    let done = agent.run(&testing::context(), start()).await.unwrap();
    assert_eq!(done.state.structured_response, None);
}

#[test]
fn a_response_format_must_be_a_schema_of_an_object() {
    let build = |schema| factory().response_format(schema).build().map(|_| ()).unwrap_err().to_string();
    assert!(build(json!({"type": "string"})).contains("must describe an object"));
    assert!(
        build(json!({"type": "object", "properties": {"a": {"type": "nonsense"}}})).contains("no valid JSON Schema")
    );
}

#[tokio::test]
async fn a_sandbox_brings_its_folders_and_its_images() {
    let home = tempfile::tempdir().unwrap();
    let section = deerflow_sandbox::SandboxConfig { provider: "host".into(), ..Default::default() };
    let launcher = deerflow_sandbox::Launcher::current();
    let provider = deerflow_sandbox::create_provider(home.path(), section, launcher).await.unwrap();
    let features = RuntimeFeatures { vision: Feature::On, ..RuntimeFeatures::default() };
    let agent = factory().features(features).sandbox(provider.clone(), home.path()).build().unwrap();
    let chain = names(&agent);
    assert_eq!(chain[..3], ["ThreadData", "Uploads", "Sandbox"]);
    assert!(chain.contains(&"ViewImage"));
    let tools: Vec<_> = agent.tools().iter().map(|t| t.spec().name.as_str()).collect();
    assert_eq!(tools, ["view_image", "ask_clarification"]);
    // Said nothing about features: a sandbox that was given is used.
    assert_eq!(names(&factory().sandbox(provider, home.path()).build().unwrap())[2], "Sandbox");
}

#[test]
fn redaction_has_its_place_when_it_is_on() {
    let config = crate::middleware::PiiRedactionConfig { enabled: true, ..Default::default() };
    let redactor = Redactor::new(&config, &crate::middleware::RedactionKey::random());
    assert_eq!(names(&factory().pii_redaction(redactor).build().unwrap())[0], "PiiRedaction");
    assert_eq!(names(&factory().pii_redaction(Redactor::off()).build().unwrap()), PLAIN);
}
