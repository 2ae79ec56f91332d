use super::*;
use crate::testing::Desk;
use deerflow_core::Effects;
use pretty_assertions::assert_eq;
use serde_json::Value;

const ALL: ToolSelection = ToolSelection { bash: true, vision: true, plan_mode: true, interactive: true };

fn names(selection: ToolSelection) -> Vec<String> {
    Desk::new().tools(&selection).iter().map(|tool| tool.spec().name.clone()).collect()
}

#[test]
fn the_order_is_fixed_and_each_selection_takes_only_its_own_tools() {
    assert_eq!(
        names(ALL),
        [
            "bash",
            "ls",
            "read_file",
            "write_file",
            "str_replace",
            "glob",
            "grep",
            "present_files",
            "ask_clarification",
            "list_uploaded_files",
            "view_image",
            "write_todos"
        ]
    );
    let none = ToolSelection { bash: false, vision: false, plan_mode: false, interactive: false };
    assert_eq!(
        names(none),
        ["ls", "read_file", "write_file", "str_replace", "glob", "grep", "present_files", "list_uploaded_files"]
    );
}

#[test]
fn schemas_are_flat_closed_and_described() {
    for tool in Desk::new().tools(&ALL) {
        let spec = tool.spec();
        let schema = &spec.parameters;
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{}", spec.name);
        let text = schema.to_string();
        for banned in ["$ref", "$defs", "$schema", "\"null\"", "\"title\"", "\"default\""] {
            assert!(!text.contains(banned), "{} has {banned}: {text}", spec.name);
        }
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{}.{name}", spec.name);
        }
        assert!((80..2500).contains(&spec.description.len()), "{}: {}", spec.name, spec.description.len());
        assert!(jsonschema::validator_for(schema).is_ok());
    }
}

#[test]
fn sandbox_tools_ask_for_a_description_first() {
    for tool in Desk::new().tools(&ALL).iter().take(7) {
        let schema = &tool.spec().parameters;
        assert_eq!(schema["properties"].as_object().unwrap().keys().next().unwrap(), "description");
        assert_eq!(schema["required"][0], "description");
    }
}

#[test]
fn effects_say_what_resuming_may_do() {
    let told =
        Desk::new().tools(&ALL).iter().map(|tool| (tool.spec().name.clone(), tool.effects())).collect::<Vec<_>>();
    for (name, effects) in told {
        let wanted = match name.as_str() {
            "bash" => Effects::Mutating,
            "write_file" | "str_replace" => Effects::Verifiable,
            "present_files" | "ask_clarification" | "write_todos" => Effects::Pure,
            _ => Effects::ReadOnly,
        };
        assert_eq!(effects, wanted, "{name}");
    }
}
