//! `write_todos`: the plan. Reminders and the rule of one call a turn belong to the todo middleware.

use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::state::{Todo, TodoStatus};
use deerflow_core::{Effects, JsonMap, StateUpdate, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

const DESCRIPTION: &str = "\
Write the plan for a task of three or more steps, and keep it true: each call replaces the whole list. Mark a step `in_progress` \
before you begin it and `completed` as soon as it is done; add, change or drop steps when you learn more. Skip it for simple \
requests. At most one call a turn.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The whole list, in order. An empty list clears the plan.
    todos: Vec<Item>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Item {
    /// What is to be done.
    content: String,
    /// How far it is.
    status: Status,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

pub(crate) struct WriteTodos {
    spec: ToolSpec,
}

impl WriteTodos {
    pub(crate) fn new() -> Self {
        Self { spec: schema::spec::<Args>("write_todos", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for WriteTodos {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, _ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        let todos: Vec<Todo> = args.todos.into_iter().map(todo).collect();
        if let Some(index) = todos.iter().position(|todo| todo.content.is_empty()) {
            return Err(ToolError::Respond(format!("todos[{index}].content is blank; the list was not changed")));
        }
        let shown = serde_json::to_string(&todos).map_err(|error| ToolError::Respond(error.to_string()))?;
        let mut output = ToolOutput::text(format!("Updated todo list to {shown}"));
        output.update = StateUpdate { todos: Some(todos), ..StateUpdate::none() };
        Ok(output)
    }
}

fn todo(item: Item) -> Todo {
    let status = match item.status {
        Status::Pending => TodoStatus::Pending,
        Status::InProgress => TodoStatus::InProgress,
        Status::Completed => TodoStatus::Completed,
    };
    Todo { content: item.content.trim().to_owned(), status }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[tokio::test]
    async fn the_list_goes_to_the_state_and_back_to_the_model() {
        let desk = Desk::new();
        let todos = json!([{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]);
        let output = desk.call("write_todos", json!({"todos": todos})).await.unwrap();
        assert_eq!(
            output.content.text(),
            r#"Updated todo list to [{"content":"a","status":"completed"},{"content":"b","status":"in_progress"}]"#
        );
        assert_eq!(serde_json::to_value(output.update.todos).unwrap(), todos);
        let cleared = desk.call("write_todos", json!({"todos": []})).await.unwrap();
        assert_eq!(cleared.update.todos, Some(vec![]));
    }

    #[tokio::test]
    async fn bad_items_are_named() {
        let desk = Desk::new();
        let text = desk.fail("write_todos", json!({"todos": [{"content": "a", "status": "done"}]})).await;
        assert!(text.contains("`todos[0].status` must be one of pending, in_progress, completed"), "{text}");
        let text = desk.fail("write_todos", json!({"todos": [{"content": " ", "status": "pending"}]})).await;
        assert_eq!(text, "todos[0].content is blank; the list was not changed");
    }
}
