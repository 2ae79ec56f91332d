//! The configuration file from the command line.

use crate::support::World;
use pretty_assertions::assert_eq;
use serde_json::Value;

#[tokio::test]
async fn a_wrong_file_is_told_by_line_and_column() {
    let world = World::offline();
    world.home.write("config.yaml", b"title:\n  enabeld: true\nmodels:\n  - name: a\n    use: opnai\n    model: m\n");
    let ran = world.run(&["config", "check"]).await.expect_code(2);
    for words in ["config.yaml", "2:3", "enabled", "openai"] {
        assert!(ran.stdout.contains(words), "{words} in {}", ran.stdout);
    }
    let ran = world.run(&["run", "x"]).await.expect_code(2);
    assert!(ran.stderr.contains("config.yaml:2:3"), "{}", ran.stderr);
}

#[tokio::test]
async fn no_file_is_fine_and_the_schema_is_json() {
    let world = World::offline();
    let ran = world.run(&["config", "check"]).await.expect_code(0);
    assert_eq!(ran.stdout.trim(), "ok: no configuration file (built-in defaults)");
    let schema: Value = serde_json::from_str(&world.run(&["config", "schema"]).await.expect_code(0).stdout).unwrap();
    for section in [
        "models",
        "sandbox",
        "database",
        "uploads",
        "title",
        "tool_output",
        "loop_detection",
        "llm_call",
        "circuit_breaker",
    ] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
}

#[tokio::test]
async fn a_file_written_for_the_original_works() {
    let world = World::offline();
    world.home.write(
        "config.yaml",
        b"config_version: 34\nlog_level: info\nmodels:\n  - name: gpt-x\n    use: langchain_openai:ChatOpenAI\n    model: gpt-x\n    \
          api_key: $NOT_SET_ANYWHERE\n    supports_thinking: true\nsandbox:\n  use: deerflow.sandbox.local:LocalSandboxProvider\n  \
          allow_host_bash: false\ntools:\n  - name: bash\n    group: bash\n    use: deerflow.sandbox.tools:bash_tool\ntool_groups:\n  - name: bash\n\
          title:\n  enabled: true\n  max_words: 6\n  max_chars: 60\nuploads:\n  auto_convert_documents: false\n  pdf_converter: auto\n\
          database:\n  backend: sqlite\nsummarization:\n  enabled: true\nmemory:\n  enabled: true\n",
    );
    let ran = world.run(&["models"]).await.expect_code(0);
    assert!(ran.stdout.contains("gpt-x") && ran.stdout.contains("NOT_SET_ANYWHERE"), "{}", ran.stdout);
    let ran = world.run(&["run", "x"]).await.expect_code(2);
    assert!(ran.stderr.contains("NOT_SET_ANYWHERE"), "a missing key names its variable: {}", ran.stderr);
    world.run(&["run", "x", "--model", "offline"]).await.expect_code(0);
}

#[tokio::test]
async fn the_chain_is_printed_with_its_reasons() {
    let world = World::offline();
    let ran = world.run(&["agent", "chain", "--json"]).await.expect_code(0);
    let places: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let active: Vec<&str> =
        places.iter().filter(|p| p["active"] == true).map(|p| p["name"].as_str().unwrap()).collect();
    insta::assert_json_snapshot!(active);
    assert!(places.iter().all(|p| p["why"].as_str().is_some_and(|w| w.len() > 10)));
    let planned = world.run(&["agent", "chain", "--plan"]).await.expect_code(0);
    let todo = planned.stdout.lines().find(|line| line.contains("TodoMiddleware"));
    assert!(todo.is_some_and(|line| !line.contains("(off)")), "{}", planned.stdout);
}

#[tokio::test]
async fn completions_and_doctor_answer() {
    let world = World::offline();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.run(&["completions", shell]).await.expect_code(0).stdout.contains("deerflow"));
    }
    let ran = world.run(&["doctor", "--json"]).await.expect_code(0);
    let checks: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let ok = |name: &str| checks.iter().find(|c| c["name"] == name).is_some_and(|c| c["ok"] == true);
    assert!(
        ok("configuration") && ok("home") && ok("database") && ok("sandbox") && ok("bash") && ok("model"),
        "{}",
        ran.stdout
    );
}

#[tokio::test]
async fn the_network_of_commands_is_checked_reported_and_told_to_the_model() {
    let world = World::offline();
    world
        .home
        .write("config.yaml", b"sandbox:\n  network:\n    allow: [pypi.org, 'localhost:3000', https://a.example/x]\n");
    let ran = world.run(&["config", "check"]).await.expect_code(2);
    for words in ["3:23", "write `127.0.0.1:3000`", "write `a.example:443`"] {
        assert!(ran.stdout.contains(words), "{words} in {}", ran.stdout);
    }
    world.home.write("config.yaml", b"sandbox:\n  use: host\n  network: {allow: [pypi.org]}\n");
    let ran = world.run(&["config", "check"]).await.expect_code(2);
    assert!(ran.stdout.contains("cannot be kept with `use: host`"), "{}", ran.stdout);
    world.home.write("config.yaml", b"sandbox:\n  network: allow-list\n");
    let ran = world.run(&["config", "check"]).await.expect_code(2);
    assert!(ran.stdout.contains("network: {allow: [pypi.org]}"), "{}", ran.stdout);
    for (file, told) in [
        ("sandbox:\n  network: off\n", "of commands: off"),
        (
            "sandbox:\n  network: {allow: [PyPI.org, '*.pythonhosted.org:443']}\n",
            "of commands: only to pypi.org, *.pythonhosted.org:443, through a proxy",
        ),
    ] {
        world.home.write("config.yaml", file.as_bytes());
        world.run(&["config", "check"]).await.expect_code(0);
        let ran = world.run(&["doctor", "--json"]).await.expect_code(0);
        let checks: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        let detail = |name: &str| checks.iter().find(|c| c["name"] == name).map(|c| c["detail"].clone());
        assert_eq!(detail("network"), Some(told.into()), "{}", ran.stdout);
        assert!(checks.iter().all(|c| c["ok"] == true || c["optional"] == true), "{}", ran.stdout);
    }
}
