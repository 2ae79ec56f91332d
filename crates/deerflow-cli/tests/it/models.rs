//! Models that misbehave: each ends in a clear error or a recovered run, and the thread stays usable.

use crate::support::{World, story};
use deerflow_testkit::{Turn, call, raw_call};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::time::Duration;

/// The next message on the same thread works, whatever happened before.
async fn thread_still_works(world: &World) {
    world.model().push(Turn::text("still here"));
    let ran = world.run(&["run", "are you there?", "--thread", "t", "--quiet"]).await.expect_code(0);
    assert_eq!(ran.stdout.trim(), "still here");
    world.model().assert_legal();
}

#[tokio::test]
async fn garbage_is_an_error_and_not_the_end_of_the_thread() {
    let world = World::scripted().await;
    world.model().push(Turn::garbage());
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(1);
    assert!(ran.stderr.contains("model"), "{}", ran.stderr);
    world.model().forget_requests();
    thread_still_works(&world).await;
}

#[tokio::test]
async fn a_stream_cut_in_mid_word_is_tried_again() {
    let world = World::scripted().await;
    world.model().push(Turn::cut_after("this is the beg"));
    world.model().push(Turn::text("the whole answer"));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    let ran = ran.expect_code(0);
    assert_eq!(end["answer"], "the whole answer");
    assert!(ran.json_lines().iter().any(|l| l["type"] == "model_discarded"));
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: the whole answer"]);
}

#[tokio::test]
async fn unknown_tools_and_broken_arguments_are_answered() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([
        call("no_such_tool", json!({"a": 1})),
        raw_call("write_file", "{\"path\": \"a\", \"content\": \"x\"}{\"b\": 2}"),
        raw_call("", "{}"),
        call("read_file", json!({"path": 7})),
    ]));
    world.model().push(Turn::text("sorry"));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    let errors: Vec<_> = story.iter().filter(|s| s.starts_with("tool: Error:")).collect();
    assert_eq!(errors.len(), 4, "{story:?}");
    world.model().assert_legal();
    world.model().assert_every_tool_call_answered();
}

#[tokio::test]
async fn a_looping_model_is_stopped_with_what_there_is() {
    let world = World::scripted().await;
    world
        .model()
        .always(|_| Turn::calls([call("ls", json!({"description": "again", "path": "/mnt/user-data/workspace"}))]));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    ran.expect_code(0);
    assert_eq!(end["stop_reason"], "loop_capped");
    assert!(end["answer"].as_str().unwrap().contains("Stopped"), "{end}");
    let asked = world.model().agent_requests();
    assert_eq!(asked.len(), 5);
    assert!(asked[3].last_user_text().contains("[LOOP DETECTED]"), "{}", asked[3].last_user_text());
}

#[tokio::test]
async fn an_endless_run_ends_at_its_turn_limit_with_an_answer() {
    let world = World::scripted().await;
    world.model().always(|request| {
        let n = request.tool_results().len();
        match request.last_user_text().contains("[TURN LIMIT]") {
            true => Turn::text("this is as far as I got"),
            false => {
                Turn::calls([call("ls", json!({"description": "d", "path": format!("/mnt/user-data/workspace/{n}")}))])
            }
        }
    });
    let (ran, end) = world.run_json(&["go", "--thread", "t", "--max-turns", "7"]).await;
    ran.expect_code(0);
    assert_eq!(
        (end["answer"].as_str(), end["stop_reason"].as_str()),
        (Some("this is as far as I got"), Some("turn_capped"))
    );
    assert_eq!(world.model().agent_requests().len(), 7);
}

#[tokio::test]
async fn a_bad_key_a_missing_server_and_an_unknown_model_say_what_to_do() {
    let world = World::scripted().await;
    world.model().push(
        Turn::status(401).error(json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})),
    );
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(1);
    assert!(ran.stderr.contains("refused the key") && ran.stderr.contains("hint:"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("test-key-123456") && !ran.stdout.contains("test-key-123456"));
    world.model().push(
        Turn::status(404)
            .error(json!({"error": {"message": "The model `scripted-1` does not exist", "code": "model_not_found"}})),
    );
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(1);
    assert!(ran.stderr.contains("scripted-1"), "{}", ran.stderr);
    thread_still_works(&world).await;

    let nowhere = World::offline();
    nowhere.home.write("config.yaml", b"models:\n  - {name: gone, use: openai, model: m, base_url: 'http://127.0.0.1:9/v1', api_key: k}\nllm_call: {retry_base_delay_ms: 1, retry_cap_delay_ms: 2}\n");
    let ran = nowhere.run(&["run", "go", "--thread", "t"]).await.expect_code(1);
    assert!(ran.stderr.contains("127.0.0.1:9"), "{}", ran.stderr);
    let ran = nowhere.run(&["run", "go", "--model", "gon"]).await.expect_code(2);
    assert!(ran.stderr.contains("did you mean \"gone\"?"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_busy_provider_is_waited_for_as_long_as_it_asks() {
    let world = World::scripted().await;
    world.model().push(Turn::status(429).retry_after(1));
    world.model().push(Turn::text("done"));
    let (ran, end) = world.run_json(&["go"]).await;
    let lines = ran.expect_code(0).json_lines();
    assert_eq!(end["answer"], "done");
    let retry = lines.iter().find(|l| l["data"]["type"] == "llm_retry").expect("a retry is told");
    assert_eq!(retry["data"]["wait_ms"], 1000);
}

#[tokio::test]
async fn another_model_answers_in_place_of_one_that_cannot_and_is_told_and_priced() {
    let world = World::scripted().await;
    let config = std::fs::read_to_string(world.path("config.yaml")).unwrap();
    let down = "models:\n  - {name: down, use: openai, model: m, base_url: 'http://127.0.0.1:9/v1', api_key: k, \
                fallbacks: [scripted], pricing: {input_per_million: 1000}}\n";
    let priced = "    pricing: {currency: CNY, output_per_million: 1000}\n    api_key:";
    let config = config.replace("models:\n", down).replace("    api_key:", priced);
    world.home.write("config.yaml", config.as_bytes());
    world.model().push(Turn::text("I am here"));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    let lines = ran.expect_code(0).json_lines();
    let told: Vec<_> = lines.iter().filter(|l| l["data"]["type"] == "model_fallback").collect();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["data"]["from"], &told[0]["data"]["to"]), (&json!("down"), &json!("scripted")));
    assert_eq!((&end["answer"], &end["model"]), (&json!("I am here"), &json!("down")));
    let spent = end["spent"].as_array().unwrap();
    let answered = spent.iter().find(|spent| spent["model"] == "scripted").expect("the model that answered");
    let tokens = answered["usage"]["output_tokens"].as_u64().unwrap();
    assert!(tokens > 0 && answered["currency"] == "CNY", "{answered}");

    // Another process: nothing rests there.
    world.model().push(Turn::text("again"));
    let ran = world.run(&["run", "go on", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stderr.contains("Model scripted answers in place of down."), "{}", ran.stderr);
    world.model().assert_legal();
}

#[tokio::test]
async fn a_silent_stream_times_out_and_is_tried_again() {
    let world = World::scripted().await;
    let config = std::fs::read_to_string(world.path("config.yaml"))
        .unwrap()
        .replace("    api_key:", "    stream_chunk_timeout: 0.3\n    api_key:");
    world.home.write("config.yaml", config.as_bytes());
    world.model().push(Turn::silence(Duration::from_secs(120)));
    world.model().push(Turn::text("awake"));
    let (ran, end) = world.run_json(&["go"]).await;
    ran.expect_code(0);
    assert_eq!(end["answer"], "awake");
}

#[tokio::test]
async fn an_answer_cut_by_length_is_shown_with_a_notice() {
    let world = World::scripted().await;
    world.model().push(Turn::text("half of it").finish_reason("length"));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    ran.expect_code(0);
    assert!(end["answer"].as_str().unwrap().starts_with("half of it\n\n[The reply was cut off"), "{end}");
    thread_still_works(&world).await;
}

/// BR-008, BR-023
#[tokio::test]
async fn a_blocked_reply_does_not_poison_the_thread() {
    let world = World::scripted().await;
    world.model().push(Turn::text("").finish_reason("content_filter"));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    ran.expect_code(0);
    assert!(end["answer"].as_str().unwrap().contains("blocked"), "{end}");
    thread_still_works(&world).await;
    let marker = "/mnt/user-data/workspace/made";
    world.model().push(
        Turn::calls([call("bash", json!({"description": "d", "command": format!("touch {marker}")}))])
            .finish_reason("content_filter"),
    );
    world.run(&["run", "again", "--thread", "t"]).await.expect_code(0);
    assert!(!world.path("users/default/threads/t/user-data/workspace/made").exists());
    thread_still_works(&world).await;
}

/// The prefix that providers cache is the same for every thread and user, and does not change between turns.
#[tokio::test]
async fn the_system_prompt_is_byte_identical_between_threads_and_turns() {
    let world = World::scripted().await;
    for thread in ["a", "b", "a"] {
        world.model().push(Turn::text("ok"));
        world.run(&["run", thread, "--thread", thread]).await.expect_code(0);
    }
    let prompts: Vec<String> = world.model().agent_requests().iter().map(|r| r.system_text()).collect();
    assert_eq!(prompts[0], prompts[1]);
    assert_eq!(prompts[0], prompts[2]);
    assert!(prompts[0].contains("<current_date>"));
    let messages = |n: usize| world.model().agent_requests()[n].messages().to_vec();
    assert_eq!(messages(2)[..2], messages(0)[..2], "the second turn begins with what the first one sent");
}

/// A real exchange is recorded to a file and replayed byte for byte, with the provider gone.
#[tokio::test]
async fn an_exchange_is_recorded_and_replayed() {
    let world = World::scripted().await;
    let tape = world.path("tape.jsonl");
    let config = std::fs::read_to_string(world.path("config.yaml")).unwrap();
    let recording = config.replace("    api_key:", &format!("    record_to: {}\n    api_key:", tape.display()));
    world.home.write("config.yaml", recording.as_bytes());
    world
        .model()
        .push(Turn::calls([call("ls", json!({"description": "d", "path": "/mnt/user-data/workspace"}))]).usage(11, 3));
    world.model().push(Turn::text("nothing there 谢谢").usage(20, 4));
    let (ran, first) = world.run_json(&["look", "--thread", "t"]).await;
    ran.expect_code(0);
    let recorded = std::fs::read_to_string(&tape).unwrap();
    assert_eq!(recorded.lines().count(), 3, "a header and two exchanges");
    assert!(!recorded.contains("test-key-123456"), "no key on the tape");

    let again = World::offline();
    again.home.write(
        "config.yaml",
        format!("models:\n  - {{name: scripted, use: replay, model: scripted-1, path: {}}}\n", tape.display())
            .as_bytes(),
    );
    let (ran, second) = again.run_json(&["look", "--thread", "t"]).await;
    ran.expect_code(0);
    for key in ["answer", "status", "usage", "artifacts"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    let (ran, _) = again.run_json(&["something else", "--thread", "u"]).await;
    assert_eq!(ran.code, 1, "a request that was never recorded is an error");
}
