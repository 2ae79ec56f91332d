use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn kind(text: &str) -> &'static str {
    Synopsis::of(text).kind.name()
}

#[test]
fn kinds_are_told_apart() {
    let csv = "id,name\n1,a\n2,b\n3,c\n4,d\n5,e\n";
    for (text, want) in [
        ("", "unknown"),
        (" \n\t", "unknown"),
        ("\u{7f}ELF\0\u{1}", "unknown"),
        ("{\"a\": [1, 2]}", "json"),
        ("{\"a\": 1}\n{\"a\": 2}\n", "json"),
        ("[{\"id\": 1, \"title\": \"long enough to be most of it\"}]\n(1 row)", "json"),
        ("[1] 4242\n[1]+  Done  make all the things", "text"),
        ("{not json}", "text"),
        ("<?xml version=\"1.0\"?><r a=\"1\"><i/><i>x</i></r>", "xml"),
        ("<!DOCTYPE html><html><br><p>unclosed</html>", "text"),
        ("<a/><b/>", "text"),
        (csv, "csv"),
        (&csv.replace(',', "\t"), "tsv"),
        ("名称,数量\n甲,1\n乙,2\n丙,3\n丁,4\n戊,5\n", "csv"),
        ("Hello, world\nYes, I know\nSo, what\nWell, no\nNow, go\nEnd, it\n", "text"),
        ("a: 1\nb:\n  c: [1, 2]\n  d: true\n", "yaml"),
        ("---\nkind: Pod\nspec: {n: 1}\n---\nkind: Job\nspec: {n: 2}\n", "yaml"),
        ("level: info\nmessage: started\nhost: a\n", "text"),
        ("INFO: up\nWARN: slow\nINFO: down\nINFO: 5\n", "text"),
        ("import os\n\ndef main():\n    pass\n", "code"),
        ("use std::fs;\n\npub fn main() {}\n", "code"),
        ("package main\n\nfunc (s *Server) Run(n int) error {\n}\nfunc main() {\n}\n", "code"),
        ("import { a } from './a';\nexport default function run() {}\n", "code"),
        ("The class of 1999 met.\nimport duties rose\nthe function of money", "text"),
    ] {
        assert_eq!(kind(text), want, "{text}");
    }
    assert_eq!(kind(&format!("[{}1]", "1,".repeat(2_600_000))), "unknown", "too long to be parsed");
}

#[test]
fn colours_are_text_and_replaced_bytes_are_not() {
    assert_eq!(kind(&"\u{1b}[32mok\u{1b}[0m ".repeat(100)), "text");
    assert!(Synopsis::of(&"ab\u{fffd}".repeat(100)).is_binary);
}

#[test]
fn json_is_described() {
    let text = r#"{"total": 2, "items": [{"id": 7, "tags": ["x"]}], "a b": {"deep": null}} trailing"#;
    assert_eq!(
        Synopsis::of(text).render(),
        r#"JSON output:
- JSON object with 3 top-level keys.
- Top-level keys: total, items, a b

Structure:
- $: object, 3 keys: total, items, a b
- $.items: array of 1, first an object with keys id, tags
- $.items[].tags: array of 1, first a string
- $["a b"]: object, 1 keys: deep

Notable items:
- $.total: 2
- $.items[0].id: 7
- $.items[0].tags[0]: "x"
- $["a b"].deep: null
- After the JSON come 8 characters of other text."#
    );
}

#[test]
fn tables_markup_and_code_are_described() {
    let table = format!("id\tname\n{}odd\n", "1\t\"a\tb\"\n".repeat(9));
    assert_eq!(
        Synopsis::of(&table).render(),
        "TSV table output:\n- TSV table with 10 data rows and 2 columns.\n\nStructure:\n- columns: id, name\n- first data row: \
         id=1 | name=a b\n\nNotable items:\n- 1 of the first 10 data rows have another number of cells."
    );
    assert_eq!(
        Synopsis::of("<feed xmlns=\"u\"><entry/><entry/><title>x</title></feed>").render(),
        "XML output:\n- XML document with root element feed and 4 elements.\n\nStructure:\n- root element: feed\n- root \
         attributes: 1\n- entry: 2\n- title: 1"
    );
    assert_eq!(
        Synopsis::of("import os, sys\nfrom a.b import c\n\nclass A(B):\n    async def run(self):\n").render(),
        "Code output:\n- Program text with 5 lines.\n\nStructure:\n- imports: os, sys, a.b\n\nNotable items:\n- line 4: class \
         A\n- line 5: def run"
    );
}

#[test]
fn a_log_shows_its_first_and_last_failures_with_line_numbers() {
    let log: String = (1..=10).map(|n| format!("step {n}\ntest {n} FAILED\n")).collect();
    let lines: Vec<String> = Synopsis::of(&log).notable;
    let want: Vec<String> = [1, 2, 3, 8, 9, 10].iter().map(|n| format!("line {}: test {n} FAILED", n * 2)).collect();
    assert_eq!(lines, want);
}

#[test]
fn nesting_and_aliases_do_no_harm() {
    assert_eq!(kind(&"[".repeat(100_000)), "text");
    assert_eq!(kind(&format!("---\n{}", "- ".repeat(50_000))), "text");
    let bomb = "---\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='j')
            .map(|c| format!("{c}: &{c} [{}]\n", vec![format!("*{}", (c as u8 - 1) as char); 9].join(", ")))
            .collect::<String>();
    assert_eq!(kind(&bomb), "text");
    assert_eq!(kind(&"<a>".repeat(100_000)), "text");
}

/// Every line is bounded, and so is their number.
fn bounded(text: &str) -> Result<(), TestCaseError> {
    let rendered = Synopsis::of(text).render();
    prop_assert!(rendered.lines().count() <= 50, "{rendered}");
    prop_assert!(rendered.lines().all(|line| line.chars().count() <= EXCERPT_CHARS + 2), "{rendered}");
    Ok(())
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,300}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 200, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map(".{0,200}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_has_a_bounded_synopsis(text in any::<String>()) {
        bounded(&text)?;
    }

    #[test]
    fn so_has_text_made_of_syntax(parts in prop::collection::vec(
        prop::sample::select(vec!["{", "}", "[", "]", "\"", ":", ",", "<a>", "</a>", "<!--", "- ", "---\n", "\n", "\t", "&a ", "*a", "def f(", "import x\n", "# H\n", "界", "\u{0}", "error ", "a", "1", "'", "|\n  ", "\\"]), 0..200)) {
        bounded(&parts.concat())?;
    }

    #[test]
    fn json_of_any_shape_is_json_unless_it_is_binary(value in any_json()) {
        let text = value.to_string();
        bounded(&text)?;
        let is_container = value.is_object() || value.is_array();
        prop_assert_eq!(kind(&text) == "json", is_container && !looks_binary(&text));
    }
}
