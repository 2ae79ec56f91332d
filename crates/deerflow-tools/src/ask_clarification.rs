//! `ask_clarification`: what the model sees of it. The clarification middleware takes the call before it gets here and builds
//! the question with [`crate::clarification`].

use crate::clarification::ASK_CLARIFICATION;
use crate::schema;
use async_trait::async_trait;
use deerflow_core::{Effects, JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

const DESCRIPTION: &str = "\
Ask the user a question and wait for the answer. Use it when you cannot go on well without it: information is missing, a \
requirement can mean different things, there are ways between which only the user can choose, or a step is risky or cannot be \
undone. Ask before you start the work, one question at a time, alone in its turn; do not ask what you can find out or decide yourself.
- `options` offers up to a few answers to pick from; the user can always write something else.
- `fields` asks for several values at once as a form, and wins over `options`. Limits: 16 fields, 24 options a field, 200 \
characters a text.";

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used; the call is intercepted")]
struct Args {
    /// The question, short and specific.
    question: String,
    /// Why it is asked.
    clarification_type: ClarificationType,
    /// Background the user needs to answer.
    #[serde(default)]
    context: Option<String>,
    /// Answers to choose from.
    #[serde(default)]
    options: Option<Vec<String>>,
    /// Fields of a form.
    #[serde(default)]
    fields: Option<Vec<Field>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClarificationType {
    MissingInfo,
    AmbiguousRequirement,
    ApproachChoice,
    RiskConfirmation,
    Suggestion,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used; the call is intercepted")]
struct Field {
    /// Name of the value, unique in the form.
    name: String,
    /// What the user reads. Default: the name.
    #[serde(default)]
    label: Option<String>,
    /// How it is asked for. Default text.
    #[serde(default)]
    r#type: Option<FieldType>,
    /// Whether it must be answered. Default false.
    #[serde(default)]
    required: Option<bool>,
    /// Choices of select and multi_select.
    #[serde(default)]
    options: Option<Vec<String>>,
    /// Example shown in the empty field.
    #[serde(default)]
    placeholder: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FieldType {
    Text,
    Textarea,
    Number,
    Select,
    MultiSelect,
    Checkbox,
    Date,
}

pub(crate) struct AskClarification {
    spec: ToolSpec,
}

impl AskClarification {
    pub(crate) fn new() -> Self {
        Self { spec: schema::spec::<Args>(ASK_CLARIFICATION, DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for AskClarification {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, _ctx: &ToolContext, _args: JsonMap) -> Result<ToolOutput, ToolError> {
        Err(ToolError::respond(
            "Questions to the user are handled before tools run, and nothing here handles them; go on with your best judgement and \
             state your assumptions",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn the_schema_names_types_and_kinds_of_fields() {
        let tool = AskClarification::new();
        let properties = &tool.spec().parameters["properties"];
        assert_eq!(
            properties["clarification_type"]["enum"],
            json!(["missing_info", "ambiguous_requirement", "approach_choice", "risk_confirmation", "suggestion"])
        );
        assert_eq!(
            properties["fields"]["items"]["properties"]["type"]["enum"],
            json!(["text", "textarea", "number", "select", "multi_select", "checkbox", "date"])
        );
        assert_eq!(tool.spec().parameters["required"], json!(["question", "clarification_type"]));
    }
}
