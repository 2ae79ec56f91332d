//! Names a thread after its first exchange.

use super::Redactor;
use crate::thoughts::spoken;
use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, RunContext, side_call};
use deerflow_config::Section;
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatModel, ChatRequest, Message, StateUpdate, ThreadState, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Names threads after their first exchange.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TitleConfig {
    /// Whether titles are made at all.
    pub enabled: bool,
    /// Longest title, in words; a model is asked to keep to it.
    #[schemars(range(min = 1, max = 20))]
    pub max_words: u32,
    /// Longest title, in characters.
    #[schemars(range(min = 10, max = 200))]
    pub max_chars: u32,
    /// Model that writes titles; without one they are the start of the first message.
    pub model_name: Option<String>,
    /// Prompt for that model; `{max_words}`, `{user_msg}` and `{assistant_msg}` are filled in.
    pub prompt_template: Option<String>,
}

impl Default for TitleConfig {
    fn default() -> Self {
        Self { enabled: true, max_words: 6, max_chars: 60, model_name: None, prompt_template: None }
    }
}

impl Section for TitleConfig {
    const KEY: &'static str = "title";
}

const UNTITLED: &str = "New Conversation";
const PROMPT: &str = "Write a title of at most {max_words} words for this conversation, in its language. Answer with the title only.\n\n\
                      User: {user_msg}\n\nAssistant: {assistant_msg}";
const MODEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Owns `title`. Writes it once.
pub struct TitleMiddleware {
    config: TitleConfig,
    model: Option<Arc<dyn ChatModel>>,
    redactor: Redactor,
}

impl TitleMiddleware {
    /// Titles by `model`, or from the first message when there is none.
    #[must_use]
    pub fn new(config: TitleConfig, model: Option<Arc<dyn ChatModel>>) -> Self {
        Self { config, model, redactor: Redactor::off() }
    }
    /// Hides personal data from the model that writes titles.
    #[must_use]
    pub fn redacting(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// A title from the user's first words.
    #[must_use]
    pub fn fallback(config: &TitleConfig, user_text: &str) -> String {
        let line = user_text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() { UNTITLED.to_owned() } else { text::ellipsis(&line, config.max_chars.min(50) as usize) }
    }

    async fn ask(&self, ctx: &RunContext, model: &Arc<dyn ChatModel>, user: &str, assistant: &str) -> Option<String> {
        let template = self.config.prompt_template.as_deref().unwrap_or(PROMPT);
        let redactor = self.redactor.for_thread(&ctx.thread_id);
        let prompt = template
            .replace("{max_words}", &self.config.max_words.to_string())
            .replace("{user_msg}", &redactor.redact(text::head(user, 500)))
            .replace("{assistant_msg}", &redactor.redact(text::head(assistant, 500)));
        let request = ChatRequest { messages: vec![Arc::new(Message::human(prompt))], ..ChatRequest::default() };
        // Whatever goes wrong, the thread gets its title from the first message instead.
        let answer = side_call(ctx, model, request, "middleware:title", MODEL_TIMEOUT).await.ok()?;
        let answer = answer.text();
        let title = spoken(&answer).trim_matches(['"', '\'', '“', '”', '「', '」', '*', '#']).trim();
        let line = title.lines().next().unwrap_or_default().trim();
        (!line.is_empty()).then(|| text::ellipsis(line, self.config.max_chars as usize))
    }
}

#[async_trait]
impl Middleware for TitleMiddleware {
    fn name(&self) -> &'static str {
        "TitleMiddleware"
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let mut users = state.messages.iter().filter(|m| m.is_real_user());
        let (first, second) = (users.next(), users.next());
        let (Some(user), None, true, None) = (first, second, self.config.enabled, &state.title) else {
            return Ok(Hook::none());
        };
        // A turn that only calls tools says nothing about the conversation yet; the model is asked when there is an answer.
        let answer = state.last_ai().filter(|m| m.tool_calls().is_empty());
        let said = user.additional_kwargs.get(kwargs::ORIGINAL_USER_CONTENT).and_then(|v| v.as_str());
        let user_text = said.map_or_else(|| user.text().into_owned(), str::to_owned);
        let title = match (&self.model, answer) {
            (Some(_), None) => return Ok(Hook::none()),
            (Some(model), Some(answer)) => self.ask(ctx, model, &user_text, &answer.text()).await,
            (None, _) => None,
        };
        let title = title.unwrap_or_else(|| Self::fallback(&self.config, &user_text));
        Ok(Hook::update(StateUpdate { title: Some(title), ..StateUpdate::none() }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    async fn title_of(messages: Vec<Message>) -> Option<String> {
        let state = ThreadState { messages: messages.into_iter().map(Arc::new).collect(), ..Default::default() };
        TitleMiddleware::new(TitleConfig::default(), None)
            .after_model(&testing::context(), &state)
            .await
            .unwrap()
            .update
            .title
    }

    #[tokio::test]
    async fn the_first_message_names_the_thread_once() {
        assert_eq!(
            title_of(vec![Message::human("  Why did\n sales fall?"), Message::ai("a")]).await.as_deref(),
            Some("Why did sales fall?")
        );
        assert_eq!(
            title_of(vec![Message::human("a"), Message::ai("b"), Message::human("c"), Message::ai("d")]).await,
            None
        );
        let long = "销售为什么下降".repeat(20);
        let title = title_of(vec![Message::human(long), Message::ai("a")]).await.unwrap();
        assert_eq!(title.chars().count(), 50);
        assert!(title.ends_with('…'));
        let with_files = Message::human("<current_uploads>x</current_uploads>\n\nsum up")
            .with_kwarg(kwargs::ORIGINAL_USER_CONTENT, "sum up");
        assert_eq!(title_of(vec![with_files, Message::ai("a")]).await.as_deref(), Some("sum up"));
        assert_eq!(title_of(vec![Message::human(" "), Message::ai("a")]).await.as_deref(), Some(UNTITLED));
    }

    /// BR-026
    #[tokio::test]
    async fn a_model_that_thinks_aloud_does_not_name_the_thread_after_its_thoughts() {
        for (said, title) in
            [("<think>short, I think</think>\n\n\"Sales in May\"", "Sales in May"), ("<think>short", "a")]
        {
            let state = ThreadState {
                messages: vec![Arc::new(Message::human("a")), Arc::new(Message::ai("b"))],
                ..Default::default()
            };
            let model = testing::script(vec![Message::ai(said)]);
            let middleware = TitleMiddleware::new(TitleConfig::default(), Some(model));
            let hook = middleware.after_model(&testing::context(), &state).await.unwrap();
            assert_eq!(hook.update.title.as_deref(), Some(title));
        }
    }
}
