use pretty_assertions::assert_eq;
use serde_json::json;

use super::parse;

#[test]
fn scalars_are_read_as_pyyaml_reads_them() {
    let node = parse("a: no\nb: on\nc: 0x10\nd: 1_000\ne: 'no'\nf: 1.5\ng: ~\nh:\ni: 007x\non: key\n1: one\n").unwrap();
    assert_eq!(
        node.to_value(),
        json!({"a": false, "b": true, "c": 16, "d": 1000, "e": "no", "f": 1.5, "g": null, "h": null, "i": "007x",
               "on": "key", "1": "one"})
    );
}

#[test]
fn every_value_and_key_knows_its_place() {
    let text = "models:\n  - name: é\n    key: value\n";
    let node = parse(text).unwrap();
    let models = &node.entries()[0];
    assert_eq!((models.key_place.line, models.key_place.column), (1, 1));
    let crate::node::Kind::List(items) = &models.node.kind else { panic!("a list") };
    let entry = &items[0].entries()[1];
    assert_eq!((entry.key_place.line, entry.key_place.column), (3, 5));
    assert_eq!((entry.node.place.line, entry.node.place.column), (3, 10));
    let (offset, len) = entry.node.place.bytes.unwrap();
    assert_eq!(&text[offset..offset + len], "value");
}

#[test]
fn anchors_and_merges_work_and_the_explicit_key_wins() {
    let node = parse("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\n").unwrap();
    assert_eq!(node.to_value()["use"], json!({"y": 3, "x": 1}));
    assert_eq!(node.get("use").unwrap().node.entries().len(), 2);
}

#[test]
fn empty_text_is_null() {
    for text in ["", "# only a comment\n", "\n\n", "---\n"] {
        assert_eq!(parse(text).unwrap().to_value(), json!(null), "{text:?}");
    }
}

#[test]
fn bombs_and_towers_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{below}*a{}]\n", level - 1));
    }
    assert!(parse(&bomb).is_err());
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&format!("a: {}{}", "[".repeat(500), "]".repeat(500))).is_err());
}
