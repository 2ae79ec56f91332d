//! Which built-in parts an agent of the library factory has.

use deerflow_agent::Middleware;
use std::fmt;
use std::sync::Arc;

/// Whether a feature is there, and whose.
#[derive(Clone, Default)]
pub enum Feature {
    /// Not there.
    #[default]
    Off,
    /// The built-in one.
    On,
    /// The caller's, in the place of the built-in one.
    Custom(Arc<dyn Middleware>),
}

impl Feature {
    /// The caller's own middleware.
    #[must_use]
    pub fn custom(middleware: impl Middleware) -> Self {
        Self::Custom(Arc::new(middleware))
    }
    /// Whether it is there in some form.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }
}

impl fmt::Debug for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("Off"),
            Self::On => f.write_str("On"),
            Self::Custom(middleware) => write!(f, "Custom({})", middleware.name()),
        }
    }
}

/// The built-in parts of an agent. A feature whose subsystem this version does not have has no field.
#[derive(Debug, Clone)]
pub struct RuntimeFeatures {
    /// Folders, uploads and the computer of the thread; on. Needs
    /// [`AgentFactory::sandbox`](super::AgentFactory::sandbox). A custom one replaces all three.
    pub sandbox: Feature,
    /// Compaction of long histories; off. A custom one only: it needs a model, so build it with that.
    pub summarization: Feature,
    /// Images that the model can look at; off. Needs the sandbox, where they are.
    pub vision: Feature,
    /// A title for the thread; off.
    pub auto_title: Feature,
    /// A gate before tool calls; off. A custom one only: there is no rule that fits everybody.
    pub guardrail: Feature,
    /// Stops a model that goes in circles; on.
    pub loop_detection: Feature,
    /// Stops a run that uses too many tokens; off. `On` takes the default budget, which is switched off in itself: give a
    /// configured one with `Custom`.
    pub token_budget: Feature,
}

impl Default for RuntimeFeatures {
    fn default() -> Self {
        Self {
            sandbox: Feature::On,
            summarization: Feature::Off,
            vision: Feature::Off,
            auto_title: Feature::Off,
            guardrail: Feature::Off,
            loop_detection: Feature::On,
            token_budget: Feature::Off,
        }
    }
}
