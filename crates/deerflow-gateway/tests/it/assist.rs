//! Features, and small things that a model does.

use crate::support::Gateway;
use deerflow_testkit::Turn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_not_here_is_told_so() {
    let gateway = Gateway::start().await;
    let off = json!({"enabled": false});
    assert_eq!(
        gateway.get("/api/features").await,
        (200, json!({"agents_api": off, "browser_control": off, "mcp_tasks": off}))
    );
    let on = Gateway::start_with("agents_api:\n  enabled: true\n").await;
    assert_eq!(on.get("/api/features").await.1["agents_api"], json!({"enabled": true}));
    for (path, expected) in [
        ("skills", json!({"skills": []})),
        ("skills/custom", json!({"skills": []})),
        ("mcp/config", json!({"mcp_servers": {}})),
        ("channels/providers", json!({"enabled": false, "providers": []})),
        ("channels/connections", json!({"connections": []})),
        ("channels/", json!({"service_running": false, "channels": {}})),
        ("scheduled-tasks", json!([])),
        ("threads/t/scheduled-tasks", json!([])),
        ("threads/t/mcp-tasks?limit=20", json!([])),
    ] {
        assert_eq!(gateway.get(&format!("/api/{path}")).await, (200, expected), "{path}");
    }
    assert_eq!(gateway.get("/api/memory/config").await.1["enabled"], false);
    assert_eq!(gateway.post("/api/runs/crons/search", &json!({"limit": 10})).await, (200, json!([])));
    assert_eq!(gateway.post("/api/runs/crons/count", &json!({})).await, (200, json!(0)));
    for path in ["runs/crons", "threads/t/runs/crons"] {
        let (status, body) = gateway.post(&format!("/api/{path}"), &json!({"schedule": "* * * * *"})).await;
        assert_eq!(status, 404);
        assert!(body["detail"].as_str().unwrap().starts_with("Cron jobs are not available"), "{body}");
    }
}

#[tokio::test]
async fn suggestions_come_from_the_end_of_the_conversation() {
    let gateway = Gateway::start().await;
    assert_eq!(gateway.get("/api/suggestions/config").await, (200, json!({"enabled": true, "max_suggestions": 3})));
    let blocks = json!([{"type": "text", "text": "the spring figures"}]);
    let said = json!([{"role": "user", "content": blocks}, {"role": "assistant", "content": "Sales fell."}]);
    gateway.model.push_auxiliary(Turn::text(
        "<think>hm [1]</think>```json\n[\"Why?\", \"And summer?\", \"Plot it\", \"More\"]\n```",
    ));
    let body = json!({"messages": said, "n": 5, "model_name": "scripted"});
    let answer = gateway.post("/api/threads/t/suggestions", &body).await;
    assert_eq!(answer, (200, json!({"suggestions": ["Why?", "And summer?", "Plot it"]})));
    let asked = gateway.model.requests()[0].last_user_text();
    assert!(asked.contains("User: the spring figures") && asked.contains("Assistant: Sales fell."), "{asked}");

    let nothing = (200, json!({"suggestions": []}));
    gateway.model.push_auxiliary(Turn::text("I cannot"));
    assert_eq!(gateway.post("/api/threads/t/suggestions", &body).await, nothing);
    gateway.model.push_auxiliary(Turn::status(400));
    assert_eq!(gateway.post("/api/threads/t/suggestions", &body).await, nothing);
    let unknown = json!({"messages": said, "model_name": "none"});
    assert_eq!(gateway.post("/api/threads/t/suggestions", &unknown).await, nothing);
    assert_eq!(gateway.post("/api/threads/t/suggestions", &json!({"messages": []})).await, nothing);
    assert_eq!(gateway.post("/api/threads/t/suggestions", &json!({"messages": said, "n": 6})).await.0, 422);
    assert_eq!(gateway.post("/api/threads/t/suggestions", &json!({})).await.0, 422);
    let off = Gateway::start_with("suggestions:\n  enabled: false\n").await;
    assert_eq!(off.get("/api/suggestions/config").await.1["enabled"], false);
    assert_eq!(off.post("/api/threads/t/suggestions", &body).await, nothing);
}

#[tokio::test]
async fn a_draft_is_rewritten() {
    let gateway = Gateway::start().await;
    gateway.model.push_auxiliary(Turn::text("Make a report on sales in Q3, with a chart."));
    let body = json!({"text": " make report sales q3 chart ", "locale": "en-GB"});
    let polished = json!({"rewritten_text": "Make a report on sales in Q3, with a chart.", "changed": true});
    assert_eq!(gateway.post("/api/input-polish", &body).await, (200, polished));
    gateway.model.push_auxiliary(Turn::text("x".repeat(5000)));
    let (_, kept) = gateway.post("/api/input-polish", &body).await;
    assert_eq!((&kept["changed"], &kept["rewritten_text"]), (&json!(false), &body["text"]));
    gateway.model.push_auxiliary(Turn::status(400));
    assert_eq!(gateway.post("/api/input-polish", &body).await.0, 503);
    let polish = async |text: &str| gateway.post("/api/input-polish", &json!({"text": text})).await;
    assert_eq!(polish(" \n ").await, (400, json!({"detail": "Input text is empty"})));
    assert_eq!(polish(&"x".repeat(4001)).await, (400, json!({"detail": "Input text exceeds 4000 characters"})));
    assert_eq!(gateway.post("/api/input-polish", &json!({"text": Value::Null})).await.0, 422);
    let off = Gateway::start_with("input_polish:\n  enabled: false\n").await;
    assert_eq!(off.post("/api/input-polish", &body).await.0, 404);
}

#[tokio::test]
async fn personal_data_does_not_reach_a_model() {
    let gateway = Gateway::start_with("pii_redaction:\n  enabled: true\n").await;
    let text = "write to ada@example.com";
    let (status, kept) = gateway.post("/api/input-polish", &json!({"text": text})).await;
    assert_eq!((status, kept), (200, json!({"rewritten_text": text, "changed": false})));
    gateway.model.push_auxiliary(Turn::text("[]"));
    let body = json!({"messages": [{"role": "user", "content": text}]});
    gateway.post("/api/threads/t/suggestions", &body).await;
    let requests = gateway.model.requests();
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].last_user_text().contains("ada@example.com"));
}
