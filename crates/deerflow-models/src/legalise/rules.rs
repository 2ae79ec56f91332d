//! What a provider wants of a history, as data.

/// Which tool-call ids a provider takes. Every rule wants them unique within the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRule {
    /// Anything that is not empty.
    Any,
    /// `[A-Za-z0-9_-]`, up to this many.
    Safe {
        /// Longest id.
        max: usize,
    },
    /// Letters and digits, exactly this many.
    Exactly(usize),
}

/// What a provider wants of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Shape of call ids.
    pub ids: IdRule,
    /// Whether images may be sent at all. If not, a note stands in for each.
    pub vision: bool,
    /// Whether a tool result may hold images. If not, they follow the results in a user message.
    pub tool_images: bool,
    /// Whether two user turns, or two assistant turns, may not follow each other.
    pub alternate: bool,
    /// Whether the first message after the system message has to be the user's.
    pub first_user: bool,
    /// Whether the last message may not be the assistant's.
    pub not_last_assistant: bool,
    /// Whether an assistant turn is needed between tool results and a user message.
    pub assistant_after_tools: bool,
    /// Block types that go through besides text and images. Others are dropped from assistant turns and named by a note
    /// elsewhere.
    pub blocks: &'static [&'static str],
}

impl Rules {
    /// OpenAI chat completions as OpenAI serves it.
    #[must_use]
    pub const fn openai() -> Self {
        Self {
            ids: IdRule::Safe { max: 40 },
            vision: true,
            tool_images: false,
            alternate: false,
            first_user: false,
            not_last_assistant: false,
            assistant_after_tools: false,
            blocks: &["input_audio", "file"],
        }
    }
    /// Chat completions of a server nobody knows: the least that any chat template takes.
    #[must_use]
    pub const fn strict() -> Self {
        Self { first_user: true, alternate: true, blocks: &[], ..Self::openai() }
    }
    /// Mistral's templates.
    #[must_use]
    pub const fn mistral() -> Self {
        Self { ids: IdRule::Exactly(9), not_last_assistant: true, assistant_after_tools: true, ..Self::strict() }
    }
    /// OpenAI's Responses: like chat completions, with reasoning items that go back as they came.
    #[must_use]
    pub const fn responses() -> Self {
        Self {
            ids: IdRule::Safe { max: 64 },
            blocks: &["reasoning", "function_call", "file", "input_file"],
            ..Self::openai()
        }
    }
    /// Anthropic messages.
    #[must_use]
    pub const fn anthropic() -> Self {
        Self {
            ids: IdRule::Safe { max: 64 },
            vision: true,
            tool_images: true,
            alternate: true,
            first_user: true,
            not_last_assistant: true,
            assistant_after_tools: false,
            blocks: &["thinking", "redacted_thinking", "document"],
        }
    }
    /// The same without thinking of earlier turns.
    #[must_use]
    pub const fn without_thinking(self) -> Self {
        Self { blocks: &["document"], ..self }
    }
    /// Gemini's own interface, for models that see images in results.
    #[must_use]
    pub const fn gemini() -> Self {
        Self {
            // They go back as they came: newer models want each answer under the very id of its call.
            ids: IdRule::Any,
            vision: true,
            tool_images: true,
            alternate: true,
            first_user: true,
            not_last_assistant: true,
            assistant_after_tools: false,
            blocks: &[],
        }
    }
    /// The same without images in results.
    #[must_use]
    pub const fn without_tool_images(self) -> Self {
        Self { tool_images: false, ..self }
    }
    /// The same without images.
    #[must_use]
    pub const fn without_vision(self) -> Self {
        Self { vision: false, ..self }
    }
    /// Every rule set there is, with and without images: for tests.
    #[must_use]
    pub fn all() -> Vec<Self> {
        [
            Self::openai(),
            Self::responses(),
            Self::strict(),
            Self::mistral(),
            Self::anthropic(),
            Self::gemini(),
            Self::gemini().without_tool_images(),
        ]
        .into_iter()
        .flat_map(|rules| [rules.clone(), rules.without_vision()])
        .collect()
    }
}
