//! Whatever is in the file, loading answers.

use proptest::prelude::*;

use crate::fixture::Fixture;

const SEED: &str = include_str!("../fixtures/config.example.yaml");

/// Loads, renders and shows everything.
fn survive(bytes: &[u8]) {
    let fixture = Fixture::with(bytes).var("OPENAI_API_KEY", "sk-1");
    let checked = fixture.check();
    let _ = deerflow_config::render(&checked.diagnostics, /*color*/ true, /*width*/ 80);
    for diagnostic in &checked.diagnostics {
        assert!(!diagnostic.to_string().is_empty());
    }
    assert_eq!(checked.config.is_none(), checked.has_errors());
    if let Some(config) = checked.config {
        let _ = config.effective();
    }
}

fn yaml() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z$_]{0,8}",
        "-?[0-9]{1,12}",
        Just("~".to_owned()),
        Just("true".to_owned()),
        "'[^'\\n]{0,6}'",
        Just("é😀".to_owned()),
        Just("$OPENAI_API_KEY".to_owned()),
        Just("1e999".to_owned()),
        Just(".nan".to_owned()),
        Just("!!binary aGk=".to_owned()),
    ];
    let key = prop_oneof![
        Just("models".to_owned()),
        Just("title".to_owned()),
        Just("name".to_owned()),
        Just("use".to_owned()),
        Just("api_base".to_owned()),
        Just("api_key".to_owned()),
        Just("max_words".to_owned()),
        Just("<<".to_owned()),
        "[a-z_]{1,6}",
    ];
    scalar.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|entries| {
                let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn random_text_never_panics(text in "[ -~\\n\\té😀]{0,200}") {
        survive(text.as_bytes());
    }

    #[test]
    fn random_yaml_never_panics(text in yaml()) {
        survive(text.as_bytes());
    }

    #[test]
    fn a_damaged_example_never_panics(at in 0..SEED.len(), len in 0usize..40, put in "[ -~\\n]{0,12}") {
        let mut bytes = SEED.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        survive(&bytes);
    }

    #[test]
    fn overrides_never_panic(name in "[A-Za-z0-9_.\\[\\]]{0,24}", value in "[ -~é]{0,24}") {
        let fixture = Fixture::with(SEED).var(&format!("DEER_FLOW__{name}"), &value);
        let _ = fixture.loader().set(name, value).check();
    }
}
