//! Which layer wins, and where the file is found.

use deerflow_config::{Config, KeyPath, ModelsSection, Secret};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::fixture::{DatabaseConfig, Fixture, LogLevel, TitleConfig, ToolsConfig};

#[test]
fn without_any_file_everything_has_its_default() {
    let fixture = Fixture::empty();
    let config = fixture.load().unwrap();
    assert_eq!(*config.section::<TitleConfig>(), TitleConfig::default());
    assert_eq!(config.section::<ModelsSection>().0, []);
    assert_eq!(config.source(), None);
    assert!(config.warnings().is_empty());
    assert_eq!(config.home(), fixture.dir.path().join("home"));
}

#[test]
fn an_empty_file_and_null_sections_are_defaults_too() {
    for text in
        ["", "# nothing\n", "title:\nmodels: ~\n", "title:\n  enabled:\n  max_words: null\n", "\u{feff}title:\n"]
    {
        let config = Fixture::with(text).load().unwrap();
        assert_eq!(*config.section::<TitleConfig>(), TitleConfig::default(), "{text:?}");
        assert!(config.source().is_some());
    }
}

#[test]
fn later_layers_win() {
    let text = "title:\n  max_words: 2\n  max_chars: 20\n  model_name: $MODEL\n";
    let words = |fixture: &Fixture| fixture.load().unwrap().section::<TitleConfig>().max_words;
    let fixture = Fixture::with(text).var("MODEL", "gpt");
    assert_eq!(words(&fixture), 2);
    let fixture = fixture.var("DEER_FLOW__TITLE__MAX_WORDS", "3");
    assert_eq!(words(&fixture), 3);
    let config = fixture.loader().set("title.max_words", "4").set("title.max_words", "5").load().unwrap();
    let title = config.section::<TitleConfig>();
    let expected = TitleConfig { enabled: true, max_words: 5, max_chars: 20, model_name: Some("gpt".to_owned()) };
    assert_eq!(*title, expected);
}

#[test]
fn text_of_variables_and_overrides_becomes_what_the_field_wants() {
    let text =
        "title:\n  enabled: $ENABLED\n  max_words: $WORDS\n  max_chars: '9'\n  model_name: $NAME\nlog_level: warn\n";
    let fixture = Fixture::with(text)
        .var("ENABLED", "off")
        .var("WORDS", "7.0")
        .var("NAME", "123")
        .var("DEER_FLOW__DATABASE__POSTGRES_URL", "12")
        .var("DEER_FLOW__DATABASE__POOL_SIZE", "12")
        .var("DEER_FLOW__DATABASE__SQLITE_DIR", "null")
        .var("DEER_FLOW__TOOLS", "[{name: a, use: b, top: $X}]");
    let config = fixture.load().unwrap();
    let expected = TitleConfig { enabled: false, max_words: 7, max_chars: 9, model_name: Some("123".to_owned()) };
    assert_eq!(*config.section::<TitleConfig>(), expected);
    assert_eq!(*config.section::<LogLevel>(), LogLevel::Warning);
    let database = config.section::<DatabaseConfig>();
    assert_eq!(
        (database.postgres_url.as_deref(), database.pool_size, &database.sqlite_dir),
        (Some("12"), Some(12), &None)
    );
    let tools = config.section::<ToolsConfig>();
    assert_eq!(tools.0[0].settings["top"], json!("$X"), "overrides are not interpolated");
}

#[test]
fn list_entries_can_be_overridden_and_added() {
    let text = "models:\n  - {name: a, use: openai, model: m, base_url: 'https://old'}\n";
    let fixture = Fixture::with(text)
        .var("DEER_FLOW__MODELS__0__API_BASE", "https://new")
        .var("DEER_FLOW__MODELS__1", "{name: b, use: offline}");
    let models = fixture.loader().set("models[0].temperature", "1").load().unwrap().section::<ModelsSection>();
    assert_eq!(models.0[0].base_url.as_deref(), Some("https://new"));
    assert_eq!(models.0[0].temperature, Some(1.0));
    assert_eq!(models.get("b").map(|model| model.use_.as_str()), Some("offline"));
}

#[test]
fn dollars() {
    let tool = |value: &str| {
        let fixture = Fixture::with(format!("tools:\n  - {{name: a, use: b, x: '{value}'}}\n")).var("NAME", "v$alue");
        fixture
            .load()
            .map(|config| config.section::<ToolsConfig>().0[0].settings["x"].clone())
            .map_err(|e| e.to_string())
    };
    assert_eq!(tool("$NAME"), Ok(json!("v$alue")));
    assert_eq!(tool("$$NAME"), Ok(json!("$NAME")));
    assert_eq!(tool("$$"), Ok(json!("$")));
    assert_eq!(tool("$5 a day"), Ok(json!("$5 a day")));
    assert_eq!(tool("a $NAME"), Ok(json!("a $NAME")));
    assert_eq!(tool("$"), Ok(json!("$")));
    assert_eq!(tool("$NONE"), Err("config.yaml:2:26: tools[0].x: environment variable `NONE` is not set".to_owned()));
}

#[test]
fn the_file_is_looked_for_in_order() {
    let fixture = Fixture::empty();
    let put = |name: &str, words: u32| fixture.write(name, format!("title: {{max_words: {words}}}"));
    let words = |loader: deerflow_config::Loader| loader.load().unwrap().section::<TitleConfig>().max_words;
    let env = |pairs: &[(&str, &str)]| {
        let more = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        fixture.env.iter().cloned().chain(more).collect::<Vec<_>>()
    };
    assert_eq!(words(fixture.loader()), 6);
    put("home/config.yaml", 1);
    assert_eq!(words(fixture.loader()), 1);
    put("config.yaml", 2);
    assert_eq!(words(fixture.loader()), 2);
    put("project/config.yaml", 3);
    let root = [("DEER_FLOW_PROJECT_ROOT", "project")];
    assert_eq!(words(fixture.loader().env(env(&root))), 3);
    put("other.yaml", 4);
    let both = [("DEER_FLOW_PROJECT_ROOT", "project"), ("DEER_FLOW_CONFIG_PATH", "other.yaml")];
    assert_eq!(words(fixture.loader().env(env(&both))), 4);
    put("mine.yaml", 5);
    assert_eq!(words(fixture.loader().env(env(&both)).file("mine.yaml")), 5);
    assert_eq!(words(fixture.loader().env(env(&[("DEER_FLOW_CONFIG_PATH", "")]))), 2);
}

#[test]
fn what_needs_a_restart_is_known() {
    let old = Fixture::with("log_level: info\ndatabase: {backend: sqlite}\ntitle: {max_words: 1}\n").load().unwrap();
    let new = Fixture::with("log_level: debug\ndatabase: {backend: sqlite}\ntitle: {max_words: 2}\n").load().unwrap();
    assert_eq!(old.changed_restart_only(&new), ["log_level"]);
    assert_eq!(old.changed_restart_only(&old), Vec::<&str>::new());
}

#[test]
fn sections_can_be_set_in_code_and_unregistered_ones_read() {
    let title = TitleConfig { max_words: 9, ..TitleConfig::default() };
    let config = Config::new("/home").with_section(title.clone());
    assert_eq!(*config.section::<TitleConfig>(), title);
    assert_eq!(*config.section::<LogLevel>(), LogLevel::Info);
    let fixture = Fixture::with("title: {max_words: 9}\n");
    let bare = deerflow_config::Loader::new(deerflow_config::Registry::new());
    let config = bare.env(fixture.env.clone()).cwd(fixture.dir.path()).load().unwrap();
    assert_eq!(*config.section::<TitleConfig>(), title);
}

#[test]
fn paths_are_read_and_written() {
    for text in ["title.enabled", "models[0].api_key", "a[1][2]", "agents.\"my agent\""] {
        if !text.contains('"') {
            assert_eq!(KeyPath::parse(text).map(|path| path.to_string()).as_deref(), Some(text));
        }
    }
    assert_eq!(KeyPath::parse("models.0.name"), KeyPath::parse("models[0].name"));
    assert_eq!(KeyPath::root().key("a b").index(1).key("c").to_string(), "\"a b\"[1].c");
    for bad in ["", ".", "a..b", "a[", "a[x]", "a]b[", "a[-1]"] {
        assert!(KeyPath::parse(bad).is_none_or(|path| bad == "a]b[" && path.segments().len() == 1), "{bad}");
    }
    assert_eq!(Secret::from("x"), Secret::from("x".to_owned()));
}
