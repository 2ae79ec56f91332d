use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn of(property: Value) -> Value {
    let made = parameters(&json!({"type": "object", "properties": {"p": property}})).unwrap();
    check(&made, "").unwrap();
    made["properties"]["p"].clone()
}

/// BR-176
#[test]
fn a_schema_as_generators_write_it_keeps_its_meaning_within_the_subset() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer", "format": "int64"}}, "required": ["x", "y"]}},
        "properties": {
            "path": {"type": "string", "description": "where", "default": "/", "examples": ["a"]},
            "limit": {"type": ["integer", "null"], "exclusiveMinimum": 0, "format": "uint"},
            "at": {"$ref": "#/$defs/Point", "description": "place"},
            "mode": {"oneOf": [{"const": "r", "title": "Read"}, {"const": "w"}], "description": "how"},
            "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "tags": {"type": "array", "uniqueItems": true}
        },
        "required": ["path", "gone", "path"]
    });
    let made = parameters(&schema).unwrap();
    check(&made, "").unwrap();
    assert_eq!(
        made,
        json!({
            "type": "OBJECT",
            "properties": {
                "path": {"type": "STRING", "description": "where"},
                "limit": {"type": "INTEGER", "nullable": true, "minimum": 1},
                "at": {"type": "OBJECT", "description": "place", "required": ["x"],
                    "properties": {"x": {"type": "INTEGER", "format": "int64"}}},
                "mode": {"type": "STRING", "description": "how", "enum": ["r", "w"]},
                "when": {"type": "STRING", "nullable": true, "format": "date-time"},
                "tags": {"type": "ARRAY", "items": {"type": "STRING"}}
            },
            "required": ["path"]
        })
    );
}

#[test]
fn a_choice_stands_alone_and_what_is_said_of_it_is_said_of_each() {
    let made = of(json!({"description": "d", "anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}));
    let each = |kind: &str| json!({"type": kind, "description": "d", "nullable": true});
    assert_eq!(made, json!({"anyOf": [each("STRING"), each("INTEGER")]}));
    assert_eq!(of(json!({"type": ["string", "number"]})), json!({"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}));
}

#[test]
fn values_that_cannot_be_enumerated_are_told_in_words() {
    assert_eq!(
        of(json!({"type": "integer", "enum": [1, 2]})),
        json!({"type": "INTEGER", "description": "one of: 1, 2"})
    );
    assert_eq!(of(json!({"enum": ["", "a", null]})), json!({"type": "STRING", "nullable": true, "enum": ["a"]}));
}

#[test]
fn a_tool_without_parameters_declares_none() {
    for schema in [json!({"type": "object"}), json!({"type": "object", "properties": {}}), json!(null), json!(true)] {
        assert_eq!(parameters(&schema), None, "{schema}");
    }
}

#[test]
fn parts_of_a_schema_are_put_together() {
    let made = of(json!({"allOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": true}, "required": ["b"]}
    ]}));
    assert_eq!(made["required"], json!(["a", "b"]));
    assert_eq!(made["properties"]["b"], anything());
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let node = json!({"type": "object", "properties": {
        "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}, "self": {"allOf": [{"$ref": "#/$defs/loop"}]}
    }});
    let schema =
        json!({"$ref": "#/$defs/node", "$defs": {"node": node, "loop": {"allOf": [{"$ref": "#/$defs/loop"}]}}});
    let made = parameters(&schema).unwrap();
    check(&made, "").unwrap();
}

fn any_schema() -> impl Strategy<Value = Value> {
    let kinds = proptest::sample::select(vec![
        json!("string"),
        json!("integer"),
        json!("number"),
        json!("array"),
        json!("object"),
        json!("null"),
        json!(["string", "null"]),
        json!(["array", "object"]),
        json!("strange"),
        json!(3),
    ]);
    let leaf = (kinds, any::<bool>(), any::<bool>()).prop_map(|(kind, enumerated, bounded)| {
        let mut schema = json!({"type": kind, "$comment": "c", "format": "email"});
        if enumerated {
            schema["enum"] = json!(["a", 1, null]);
        }
        if bounded {
            schema["exclusiveMaximum"] = json!(5);
            schema["minItems"] = json!(-1);
        }
        schema
    });
    leaf.prop_recursive(4, 40, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (proptest::sample::select(vec!["anyOf", "oneOf", "allOf", "prefixItems", "items"]), list)
                .prop_map(|(key, list)| json!({key: list, "description": "d"})),
            proptest::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|all| json!({"properties": all, "required": ["a", "z"], "not": {}})),
            Just(json!(true)),
            Just(json!({"$ref": "#/properties/p"})),
            Just(json!({"$ref": 5})),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_a_schema_says_the_declaration_is_of_the_subset(schema in any_schema()) {
        let made = parameters(&json!({"type": "object", "properties": {"p": schema}})).unwrap();
        prop_assert_eq!(check(&made, ""), Ok(()));
    }
}
