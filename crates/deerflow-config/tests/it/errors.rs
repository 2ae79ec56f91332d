//! Each way a file can be wrong, as the user sees it.

use deerflow_config::{ModelsSection, Severity};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;

use crate::fixture::Fixture;

#[test]
fn unknown_key_in_a_strict_section() {
    assert_snapshot!(Fixture::with("title:\n  enabld: true\n  nonsense: 1\n").rendered());
}

#[test]
fn wrong_types() {
    let text = "title:\n  enabled: maybe\n  max_words: [1, 2]\n  max_chars: many\n  model_name: no\ntools: nothing\n";
    assert_snapshot!(Fixture::with(text).rendered());
}

#[test]
fn numbers_out_of_range_and_unknown_words() {
    let text = "title: {max_words: 0, max_chars: -1}\nlog_level: infoo\ndatabase: {pool_size: 300}\n";
    assert_snapshot!(Fixture::with(text).rendered());
}

#[test]
fn missing_keys() {
    assert_snapshot!(Fixture::with("tools:\n  - name: ls\n  - group: web\nmodels:\n  - use: openai\n").rendered());
}

#[test]
fn duplicate_keys_are_shown_at_both_places() {
    assert_snapshot!(Fixture::with("title:\n  enabled: true\n  max_words: 3\n  enabled: false\n").rendered());
}

#[test]
fn not_yaml() {
    assert_snapshot!(Fixture::with("title:\n  enabled: [true\nmodels: {\n").rendered());
    assert_snapshot!(Fixture::with("title:\n\tenabled: true\n").rendered());
    assert_snapshot!(Fixture::with("a: *nowhere\n").rendered());
}

#[test]
fn not_a_mapping() {
    assert_snapshot!(Fixture::with("- a\n- b\n").rendered());
}

#[test]
fn unset_variables_name_the_variable_and_the_place() {
    let text = "title:\n  model_name: $TITLE_MODLE\nmodels:\n  - name: a\n    use: openai\n    model: m\n    api_key: $NOT_THERE\n";
    assert_snapshot!(Fixture::with(text).var("TITLE_MODEL", "x").rendered());
}

#[test]
fn braces_are_not_a_variable() {
    assert_snapshot!(Fixture::with("title:\n  model_name: ${NAME}\n").rendered());
}

#[test]
fn providers_that_are_not_there() {
    let text = "models:\n  - {name: a, use: opnai, model: m}\n  - {name: b, use: 'langchain_google_vertexai:ChatVertexAI', model: m}\n  - {name: c, use: mindie, model: m}\n  - {name: a, use: openai, model: m, base_url: localhost}\n";
    assert_snapshot!(Fixture::with(text).rendered());
}

#[test]
fn unknown_and_unbuilt_sections() {
    let text = "titel:\n  enabled: true\nchannels:\n  telegram: {bot_token: $NOT_SET}\nmy_own: 1\n";
    assert_snapshot!(Fixture::with(text).rendered());
}

#[test]
fn unknown_keys_of_a_section_that_drops_them() {
    assert_snapshot!(Fixture::with("database:\n  bakend: sqlite\n  shards: 3\n").rendered());
}

// BR-027
#[test]
fn endpoint_key_of_a_model_is_never_ignored_without_a_word() {
    let text =
        "models:\n  - name: main\n    use: openai\n    model: m\n    api_bsae: https://one.example/v1\n    foo: 1\n";
    let fixture = Fixture::with(text);
    assert_eq!(
        fixture.lines(),
        [
            "config.yaml:5:5: models[0].api_bsae: unknown key of `main`, did you mean `api_base`?",
            "config.yaml:6:5: models[0].foo: unknown key of `main`, passed on as it is",
        ]
    );
    let fixture = Fixture::with(text.replace("api_bsae", "api_base").replace("    foo: 1\n", ""));
    assert_eq!(fixture.lines(), Vec::<String>::new());
    let models = fixture.load().unwrap().section::<ModelsSection>();
    assert_eq!(models.0[0].base_url.as_deref(), Some("https://one.example/v1"));
}

// BR-027
#[test]
fn both_spellings_of_an_endpoint_are_remarked_on_and_base_url_wins() {
    let text = "models:\n  - {name: m, use: openai, model: m, api_base: 'https://a', base_url: 'https://b'}\n";
    let fixture = Fixture::with(text);
    assert_eq!(
        fixture.lines(),
        ["config.yaml:2:38: models[0].api_base: another name of `base_url`, which is set too and wins"]
    );
    assert_eq!(fixture.load().unwrap().section::<ModelsSection>().0[0].base_url.as_deref(), Some("https://b"));
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = "title:\n  max_words: x\n  max_words: y\n  colour: red\nlog_level: loud\nmodels:\n  - {use: nobody, model: 1}\n";
    let error = Fixture::with(text).load().unwrap_err();
    assert_snapshot!(error);
    assert!(error.errors().count() >= 7);
}

#[test]
fn a_model_without_its_key_does_not_stop_the_others() {
    let text = "models:\n  - {name: a, use: openai, model: m, api_key: $KEY_A}\n  - {name: b, use: openai, model: m, api_key: $KEY_B}\n";
    let fixture = Fixture::with(text).var("KEY_B", "sk-b");
    let config = fixture.load().unwrap();
    assert_eq!(config.warnings().len(), 1);
    assert_eq!(config.warnings()[0].severity, Severity::Warning);
    assert_eq!(
        config.warnings()[0].to_string(),
        "config.yaml:2:47: models[0].api_key: environment variable `KEY_A` is not set"
    );
    let models = config.section::<ModelsSection>();
    assert_eq!(
        models.0[0].unusable().as_deref(),
        Some("model `a` cannot be used: its `api_key` is `$KEY_A`, and that environment variable is not set")
    );
    assert_eq!(models.0[1].unusable(), None);
    assert_eq!(models.0[1].api_key.as_ref().map(|key| key.expose().to_owned()), Some("sk-b".to_owned()));
    assert!(fixture.check().has_errors());
}

#[test]
fn files_that_cannot_be_had() {
    let fixture = Fixture::empty();
    let why = |loader: deerflow_config::Loader| {
        let text = loader.load().unwrap_err().to_string();
        text.replace(&fixture.dir.path().display().to_string(), "<dir>")
    };
    fixture.write("config.yml", "title:\n");
    let warnings = fixture.load().unwrap().warnings().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(warnings, ["configuration: `config.yml` is not read, name it `config.yaml`"]);
    assert_eq!(why(fixture.loader().file("none.yaml")), "none.yaml: no such file");
    let env = fixture.env.iter().cloned();
    let by_variable = fixture.loader().env(env.chain([("DEER_FLOW_CONFIG_PATH".to_owned(), "gone/c.yaml".to_owned())]));
    assert_eq!(why(by_variable), "gone/c.yaml: no such file");
    fixture.write("folder/config.yaml", "");
    assert_eq!(why(fixture.loader().file("folder")), "folder: is a folder, not a file");
    fixture.write("latin1.yaml", b"title:\n  model_name: caf\xe9\n");
    assert_eq!(why(fixture.loader().file("latin1.yaml")), "latin1.yaml: is not UTF-8 text (first bad byte on line 2)");
    fixture.write("big.yaml", vec![b'#'; (4 << 20) + 1]);
    assert_eq!(why(fixture.loader().file("big.yaml")), "big.yaml: is larger than 4 MiB");
    assert_eq!(
        why(deerflow_config::Loader::new(crate::fixture::registry())),
        "environment: no home folder: neither `DEER_FLOW_HOME` nor `HOME` is set (hint: set `DEER_FLOW_HOME` to a folder for data)"
    );
}

#[test]
fn bad_overrides_name_the_variable_or_flag() {
    let fixture = Fixture::with("title:\n  max_words: 3\n")
        .var("DEER_FLOW__TITLE__MAX_WORDS", "lots")
        .var("DEER_FLOW__TITLE__ENABLD", "true")
        .var("DEER_FLOW__MODELS__3__NAME", "x")
        .var("DEER_FLOW____X", "1")
        .var("DEER_FLOW__TITEL__ENABLED", "1");
    let loader = fixture.loader().set("title.max_words.deep", "1").set("title..x", "1");
    assert_snapshot!(loader.check().diagnostics.iter().map(|d| format!("{d}\n")).collect::<String>());
}

#[test]
fn the_password_in_an_address_that_is_none_is_not_shown() {
    let text = "models:\n  - {name: m, use: openai, model: m, base_url: 'htp://u:hunter2@host'}\n";
    let shown = Fixture::with(text).rendered();
    assert!(shown.contains("htp://u:[redacted]@host") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn fallbacks_to_nobody_and_in_a_circle() {
    let text = "models:\n  - {name: a, use: deepseek, model: m, fallbacks: [b, offline]}\n  - {name: b, use: deepseek, model: m, fallbacks: [a, bb]}\n";
    assert_snapshot!(Fixture::with(text).rendered());
}
