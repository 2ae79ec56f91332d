//! A thread's state as clients see it.

use deerflow_core::state::ThreadData;
use deerflow_core::{JsonMap, ThreadState};
use deerflow_sandbox::{OUTPUTS, UPLOADS, WORKSPACE};
use serde_json::{Value, json};

/// Channels that are there from the beginning, with what they are then.
fn defaults() -> [(&'static str, Value); 5] {
    [
        ("messages", json!([])),
        ("artifacts", json!([])),
        ("viewed_images", json!({})),
        ("delegations", json!([])),
        ("skill_context", json!([])),
    ]
}

/// The `values` of a state: every channel that is set, and those that always are. What middlewares keep for themselves is
/// left out, and folders have their virtual paths.
pub(crate) fn values(state: &ThreadState) -> JsonMap {
    let folders = state.thread_data.as_ref().map(|_| ThreadData {
        workspace_path: Some(WORKSPACE.to_owned()),
        uploads_path: Some(UPLOADS.to_owned()),
        outputs_path: Some(OUTPUTS.to_owned()),
    });
    let shown = ThreadState { private: Default::default(), thread_data: folders, ..state.clone() };
    let Ok(Value::Object(set)) = serde_json::to_value(shown) else {
        // A state is an object with texts for keys.
        return JsonMap::new();
    };
    let mut values: JsonMap = defaults().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    values.extend(set);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::Message;
    use pretty_assertions::assert_eq;
    use std::sync::Arc;

    #[test]
    fn unset_channels_are_absent_and_the_host_is_not_seen() {
        let nothing = values(&ThreadState::default());
        assert_eq!(
            Value::Object(nothing),
            json!({"messages": [], "artifacts": [], "viewed_images": {}, "delegations": [], "skill_context": []})
        );
        let mut state = ThreadState { title: Some("t".into()), ..ThreadState::default() };
        state.messages.push(Arc::new(Message::human("hi").with_id("1")));
        state.thread_data = Some(ThreadData { workspace_path: Some("/srv/w".into()), ..ThreadData::default() });
        state.private.insert("Secret".into(), json!(1));
        let seen = Value::Object(values(&state));
        assert_eq!((&seen["title"], &seen["messages"][0]["content"]), (&json!("t"), &json!("hi")));
        assert_eq!(seen["thread_data"]["workspace_path"], "/mnt/user-data/workspace");
        let text = seen.to_string();
        assert!(!text.contains("/srv") && !text.contains("Secret") && !text.contains("__private"), "{text}");
    }
}
