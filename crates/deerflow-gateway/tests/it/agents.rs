//! Custom agents, and assistants that stand for them.

use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const ON: &str = "agents_api:\n  enabled: true\n";

#[tokio::test]
async fn agents_are_managed_only_where_that_is_on() {
    let gateway = Gateway::start().await;
    let body = json!({"name": "a", "graph_id": "lead_agent", "content": "x"});
    for (status, answer) in [
        gateway.get("/api/agents").await,
        gateway.get("/api/agents/a").await,
        gateway.get("/api/agents/check?name=a").await,
        gateway.post("/api/agents", &body).await,
        gateway.put("/api/agents/a", &body).await,
        gateway.delete("/api/agents/a").await,
        gateway.get("/api/user-profile").await,
        gateway.put("/api/user-profile", &body).await,
        gateway.post("/api/assistants", &body).await,
        gateway.patch("/api/assistants/a", &json!({})).await,
        gateway.delete("/api/assistants/a").await,
    ] {
        assert_eq!(status, 403);
        assert!(answer["detail"].as_str().unwrap().starts_with("Custom-agent management API is disabled"), "{answer}");
    }
    assert!(!gateway.home.path().join("users/default/agents").exists());
}

#[tokio::test]
async fn an_agent_is_made_changed_and_deleted() {
    let gateway = Gateway::start_with(ON).await;
    assert_eq!(gateway.get("/api/agents").await, (200, json!({"agents": []})));
    assert_eq!(gateway.get("/api/agents/check?name=Sales").await, (200, json!({"available": true, "name": "sales"})));
    let body = json!({
        "name": "Sales", "description": "counts", "model": "scripted", "soul": "You count.", "skills": ["a"],
        "model_settings": {"temperature": 0.5, "max_tokens": 100}, "reasoning_effort": "low", "unknown": 1,
    });
    let expected = json!({
        "name": "sales", "description": "counts", "model": "scripted", "tool_groups": null, "skills": ["a"],
        "model_settings": {"temperature": 0.5, "max_tokens": 100}, "thinking_enabled": null, "reasoning_effort": "low",
        "soul": "You count.",
    });
    assert_eq!(gateway.post("/api/agents", &body).await, (201, expected.clone()));
    assert_eq!(gateway.get("/api/agents/SALES").await, (200, expected));
    assert_eq!(gateway.get("/api/agents/check?name=sales").await.1["available"], false);
    assert_eq!(gateway.post("/api/agents", &body).await, (409, json!({"detail": "Agent 'sales' already exists"})));
    // The harness reads the same files.
    let soul = gateway.home.path().join("users/default/agents/sales/SOUL.md");
    assert_eq!(std::fs::read_to_string(soul).unwrap(), "You count.");

    let change = json!({"skills": null, "model_settings": {"temperature": null}, "thinking_enabled": false});
    let (status, changed) = gateway.put("/api/agents/sales", &change).await;
    assert_eq!((status, &changed["skills"], &changed["description"]), (200, &Value::Null, &json!("counts")));
    assert_eq!(changed["model_settings"], json!({"temperature": null, "max_tokens": 100}));
    assert_eq!(gateway.get("/api/agents").await.1["agents"][0], changed);

    for bad in [
        json!({"name": "a b"}),
        json!({"name": "../x"}),
        json!({"name": ""}),
        json!({"name": "x".repeat(65)}),
        json!({}),
        json!({"name": "n", "model": "none"}),
        json!({"name": "n", "reasoning_effort": "huge"}),
        json!({"name": "n", "model_settings": {"temperature": 3}}),
        json!({"name": "n", "model_settings": {"top_p": 1}}),
        json!({"name": "n", "skills": "a"}),
        json!({"name": "n", "description": "x".repeat(2001)}),
    ] {
        assert_eq!(gateway.post("/api/agents", &bad).await.0, 422, "{bad}");
    }
    assert_eq!(gateway.get("/api/agents").await.1["agents"].as_array().unwrap().len(), 1);
    assert_eq!(gateway.get("/api/agents/none").await, (404, json!({"detail": "Agent 'none' not found"})));
    assert_eq!(gateway.put("/api/agents/none", &json!({})).await.0, 404);
    assert_eq!(gateway.delete("/api/agents/sales").await.0, 204);
    assert_eq!(gateway.delete("/api/agents/sales").await.0, 404);

    assert_eq!(gateway.get("/api/user-profile").await, (200, json!({"content": null})));
    assert_eq!(gateway.put("/api/user-profile", &json!({"content": "me"})).await, (200, json!({"content": "me"})));
    assert_eq!(gateway.get("/api/user-profile").await, (200, json!({"content": "me"})));
    assert_eq!(gateway.put("/api/user-profile", &json!({})).await, (200, json!({"content": null})));
    assert_eq!(gateway.put("/api/user-profile", &json!({"content": "x".repeat(70_000)})).await.0, 413);
}

#[tokio::test]
async fn assistants_are_the_lead_agent_and_the_custom_ones() {
    let gateway = Gateway::start_with(ON).await;
    let lead = gateway.get("/api/assistants/lead_agent").await;
    assert_eq!((lead.0, &lead.1["graph_id"], &lead.1["version"]), (200, &json!("lead_agent"), &json!(1)));
    assert_eq!(lead.1["metadata"], json!({"created_by": "system"}));
    let new = json!({"graph_id": "lead_agent", "name": "Big Sales", "description": "counts", "metadata": {"k": 1}});
    let (status, made) = gateway.post("/api/assistants", &new).await;
    assert_eq!((status, &made["assistant_id"]), (200, &json!("big-sales")));
    assert_eq!(made["metadata"], json!({"k": 1, "created_by": "user"}));
    assert_eq!(gateway.post("/api/assistants", &new).await.0, 409);
    let again = json!({"graph_id": "lead_agent", "assistant_id": "big-sales", "if_exists": "do_nothing"});
    assert_eq!(gateway.post("/api/assistants", &again).await.1["description"], "counts");
    let (_, changed) =
        gateway.patch("/api/assistants/big-sales", &json!({"description": "d", "metadata": {"k": 2}})).await;
    assert_eq!((&changed["description"], &changed["metadata"]["k"]), (&json!("d"), &json!(2)));

    let ids = async |body: Value| {
        let (status, found) = gateway.post("/api/assistants/search", &body).await;
        assert_eq!(status, 200, "{found}");
        found.as_array().unwrap().iter().map(|a| a["assistant_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(json!({})).await, ["lead_agent", "big-sales"]);
    assert_eq!(ids(json!({"name": "SALES"})).await, ["big-sales"]);
    assert_eq!(ids(json!({"metadata": {"k": 2}, "graph_id": "lead_agent"})).await, ["big-sales"]);
    assert_eq!(ids(json!({"graph_id": "other"})).await, Vec::<String>::new());
    assert_eq!(ids(json!({"sort_by": "name", "sort_order": "asc"})).await, ["big-sales", "lead_agent"]);
    assert_eq!(gateway.post("/api/assistants/count", &json!({})).await, (200, json!(2)));
    let url = format!("{}/api/assistants/search", gateway.url);
    let page = gateway.client.post(&url).json(&json!({"limit": 1, "select": ["name"]})).send().await.unwrap();
    assert_eq!(page.headers()["x-pagination-next"], "1");
    assert_eq!(page.json::<Value>().await.unwrap(), json!([{"name": "lead_agent"}]));

    let at = |path: &str| format!("/api/assistants/lead_agent/{path}");
    assert_eq!(
        gateway.get(&at("graph?xray=true")).await.1,
        json!({"graph_id": "lead_agent", "nodes": [], "edges": []})
    );
    assert_eq!(gateway.get(&at("schemas")).await.1["input_schema"], json!({}));
    assert_eq!(gateway.get(&at("subgraphs?recurse=false")).await, (200, json!({})));
    assert_eq!(gateway.get(&at("subgraphs/x")).await, (200, json!({})));
    assert_eq!(gateway.post(&at("versions"), &json!({"limit": 10, "offset": 0})).await.1.as_array().unwrap().len(), 1);
    assert_eq!(gateway.post(&at("latest"), &json!({"version": 1})).await.1["assistant_id"], "lead_agent");
    assert_eq!(gateway.post(&at("latest"), &json!({"version": 2})).await.0, 404);
    for path in ["none", "a%2Fb", "none/graph", "none/schemas", "none/subgraphs"] {
        let (status, body) = gateway.get(&format!("/api/assistants/{path}")).await;
        assert_eq!(status, 404, "{path} {body}");
    }
    assert_eq!(gateway.get("/api/assistants/none").await.1, json!({"detail": "Assistant none not found"}));
    for bad in [
        json!({"graph_id": "other"}),
        json!({"graph_id": "lead_agent", "config": {"recursion_limit": 5}}),
        json!({"graph_id": "lead_agent", "context": {"a": 1}}),
        json!({"graph_id": "lead_agent", "name": "a/b"}),
        json!({"name": "x"}),
    ] {
        assert_eq!(gateway.post("/api/assistants", &bad).await.0, 422, "{bad}");
    }
    assert_eq!(gateway.patch("/api/assistants/big-sales", &json!({"name": "other"})).await.0, 422);
    assert_eq!(gateway.patch("/api/assistants/lead_agent", &json!({})).await.0, 403);
    assert_eq!(gateway.delete("/api/assistants/lead_agent").await.0, 403);
    assert_eq!(gateway.delete("/api/assistants/big-sales?delete_threads=true").await.0, 422);
    assert_eq!(gateway.delete("/api/assistants/big-sales").await.0, 204);
    assert_eq!(gateway.delete("/api/assistants/big-sales").await.0, 404);
    let empty = answer(gateway.client.post(&url)).await;
    assert_eq!(empty.1.as_array().unwrap().len(), 1);
}
