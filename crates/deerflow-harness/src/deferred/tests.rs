use super::*;
use crate::factory::create_deerflow_agent;
use crate::middleware::testing::{context_with, says, script};
use deerflow_core::{AgentEvent, EventSink, Message, ToolCall};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

struct Fake(ToolSpec);

impl Fake {
    fn tool(name: &str, about: &str) -> Arc<dyn Tool> {
        let parameters = json!({"type": "object"});
        Arc::new(Self(ToolSpec { name: name.into(), description: about.into(), parameters }))
    }
}

#[async_trait]
impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    async fn call(&self, _: &ToolContext, _: JsonMap) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(format!("ran {}", self.0.name)))
    }
}

fn catalogue() -> Arc<DeferredCatalogue> {
    let mut tools = vec![
        Fake::tool("send_mail", "Sends an e-mail"),
        Fake::tool("calendar_list", "Lists meetings"),
        Fake::tool("mail_search", "Finds an e-mail"),
    ];
    tools.extend((0..7).map(|n| Fake::tool(&format!("bulk_{n}"), "does bulk work")));
    DeferredCatalogue::new(tools).unwrap()
}

fn found(query: &str) -> Vec<String> {
    catalogue().search(query).iter().map(|t| t.spec().name.clone()).collect()
}

#[test]
fn a_search_is_by_name_by_words_or_by_pattern() {
    assert_eq!(found("select: mail_search ,nothing,calendar_list"), ["mail_search", "calendar_list"]);
    assert_eq!(found("select:bulk_0,bulk_1,bulk_2,bulk_3,bulk_4,bulk_5").len(), 6, "by name without a limit");
    assert_eq!(found("MAIL"), ["send_mail", "mail_search"]);
    assert_eq!(found("meetings"), ["calendar_list"]);
    assert_eq!(found("^bulk_[0-9]$").len(), FOUND);
    assert_eq!(found("weather"), Vec::<String>::new());
    assert_eq!(found(" "), Vec::<String>::new());
}

#[test]
fn a_catalogue_is_known_by_what_is_in_it_and_never_empty() {
    assert!(DeferredCatalogue::new([]).is_none());
    let (a, b) = (|| Fake::tool("a", "x"), || Fake::tool("b", "y"));
    let hash = |tools: Vec<Arc<dyn Tool>>| DeferredCatalogue::new(tools).unwrap().hash().to_owned();
    assert_eq!(hash(vec![a(), b()]), hash(vec![b(), a()]));
    assert_ne!(hash(vec![a(), b()]), hash(vec![a(), Fake::tool("b", "z")]));
    assert_eq!(hash(vec![a()]), hash(vec![a(), Fake::tool("a", "other")]), "the first of a name counts");
}

fn calls(calls: &[(&str, Value)]) -> Message {
    let mut message = Message::ai("");
    message.as_ai_mut().unwrap().tool_calls = calls
        .iter()
        .enumerate()
        .map(|(n, (name, args))| ToolCall::new(format!("c{n}"), *name, args.as_object().cloned().unwrap_or_default()))
        .collect();
    message
}

#[tokio::test]
async fn a_hidden_tool_is_called_after_it_was_found_and_hidden_again_in_the_next_turn() {
    let search = ("tool_search", json!({"query": "select:send_mail"}));
    let model = script(vec![
        calls(&[("send_mail", json!({}))]),
        calls(&[search.clone(), search]),
        calls(&[("send_mail", json!({}))]),
        Message::ai("sent"),
        calls(&[("send_mail", json!({}))]),
        Message::ai("not sent"),
    ]);
    let (events, mut seen) = EventSink::channel(1000);
    let agent = create_deerflow_agent(model.clone()).deferred_tools(catalogue()).build().unwrap();
    let first = agent.run(&context_with(events), says("mail it")).await.unwrap();
    let results = |state: &ThreadState| -> Vec<String> {
        let tools = state.messages.iter().filter(|m| m.as_tool().is_some());
        tools.map(|m| m.text().chars().take(40).collect()).collect()
    };
    let first = results(&first.state);
    assert_eq!(first[0], "Error: `send_mail` is a deferred tool an");
    assert!(first[1].starts_with("[\n  {\n    \"name\": \"send_mail\""), "{first:?}");
    assert_eq!(first[3], "ran send_mail");
    let offered = |n: usize| model.requests()[n].tools.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!(offered(0), ["ask_clarification", "tool_search"]);
    assert_eq!(offered(2), ["ask_clarification", "tool_search", "send_mail"]);
    let mut promotions = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let AgentEvent::Custom(event) = event {
            promotions.push(event["changes"]["names"].clone());
        }
    }
    assert_eq!(promotions, [json!(["send_mail"])], "two searches, one promotion");
    let second = agent.run(&context_with(EventSink::none()), says("again")).await.unwrap();
    assert_eq!(offered(4), ["ask_clarification", "tool_search"]);
    assert!(results(&second.state)[4].starts_with("Error: `send_mail` is a deferred tool"));
}

proptest! {
    #[test]
    fn no_query_breaks_the_search(query in any::<String>()) {
        let catalogue = catalogue();
        let found = catalogue.search(&query);
        prop_assert!(query.trim().starts_with("select:") || found.len() <= FOUND);
    }
}
