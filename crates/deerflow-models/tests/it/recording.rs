use crate::fake::{Fake, Reply, ask, chunks, delta, finish, run};
use deerflow_core::{ChatModel, Message, ModelErrorKind};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

fn replay(path: &Path) -> Arc<dyn ChatModel> {
    let profile = json!({"name": "again", "use": "replay", "model": "", "path": path});
    deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap()
}

#[tokio::test]
async fn what_was_recorded_comes_back_byte_for_byte_and_holds_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/tape.jsonl");
    let answer = |text: &str| {
        chunks(&[delta(json!({"reasoning_content": "hm"})), delta(json!({"content": text})), finish("stop")])
    };
    let fake = Fake::start([
        Reply::sse(&answer("你好 one")).cut(2),
        Reply::json(429, &json!({"error": {"message": "slow down sk-secret-1"}})).header("retry-after", "3"),
        Reply::sse(&answer("two")),
        Reply::sse(&format!("data: {}\n\n", delta(json!({"content": "half"})))),
    ])
    .await;
    let extra = json!({"record_to": path, "temperature": 0.2, "headers": {"X-Tenant": "tenant-secret"}});
    let live = fake.model("deepseek", extra);
    let question = |text: &str| ask(vec![Message::human(text)]);
    let asked = ["q on 2026-01-02", "twice", "twice", "cut"];
    let mut expected = Vec::new();
    for text in asked {
        let outcome = run(&*live, question(text)).await;
        expected.push((outcome.deltas, outcome.result.map_err(|error| (error.kind, error.retry_after))));
    }
    let tape = std::fs::read_to_string(&path).unwrap();
    assert_eq!(tape.lines().count(), 5);
    assert!(!tape.contains("sk-secret-1") && !tape.contains("tenant-secret"), "{tape}");

    let model = replay(&path);
    assert_eq!((model.info().name.as_str(), model.info().model.as_str()), ("again", "fake"));
    for (at, text) in ["q on 2027-12-31", "twice", "twice", "cut"].into_iter().enumerate() {
        let outcome = run(&*model, question(text)).await;
        assert_eq!(
            (outcome.deltas, outcome.result.map_err(|error| (error.kind, error.retry_after))),
            expected[at],
            "{text}"
        );
    }
    // The last answer to an equal request stays.
    assert_eq!(run(&*model, question("twice")).await.message().text(), "two");
}

#[tokio::test]
async fn a_request_that_was_not_recorded_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.jsonl");
    let fake = Fake::start([Reply::sse(&chunks(&[delta(json!({"content": "hi"})), finish("stop")]))]).await;
    run(&*fake.model("openai", json!({"record_to": path})), ask(vec![Message::human("hello there")])).await.message();
    let error = run(&*replay(&path), ask(vec![Message::human("hello you")])).await.error();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    let expected = "this request is not in it. Exchange 1 of 1 was expected: `messages[0].content` differs at character 6: \
                    recorded \"hello there\", now \"hello you\"";
    assert!(error.message.contains(expected), "{error}");
}

#[tokio::test]
async fn a_recording_that_is_none_says_which_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.jsonl");
    let failure = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let profile = json!({"name": "m", "use": "replay", "model": "", "path": path});
        let profile = serde_json::from_value(profile).unwrap();
        deerflow_models::create_chat_model(&profile, &|_| None).err().unwrap().to_string()
    };
    assert!(failure("").contains("the file is empty"));
    assert!(failure("{}\n").contains("line 1"));
    let head = r#"{"deerflow_recording":1,"profile":{"name":"a","use":"openai","model":"x"}}"#;
    assert!(failure(&format!("{head}\n\nnonsense\n")).contains("line 3"));
    assert!(failure(&head.replace(":1,", ":9,")).contains("its format is 9"));
}
