//! What holds for every route.

use crate::support::Gateway;
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn both_mounts_answer_alike_and_strangers_are_told() {
    let gateway = Gateway::start().await;
    assert_eq!(gateway.get("/health").await, (200, json!({"status": "healthy", "service": "deer-flow-gateway"})));
    let models = gateway.get("/api/models").await;
    assert_eq!(models.0, 200);
    assert_eq!(models.1["models"][0]["name"], "scripted");
    assert_eq!(gateway.get("/api/langgraph/models").await, models);
    assert_eq!(gateway.get("/api/models/none").await, (404, json!({"detail": "Model 'none' not found"})));
    assert_eq!(gateway.get("/nowhere").await, (404, json!({"detail": "Not Found"})));
    assert_eq!(gateway.get("/api/nowhere").await, (404, json!({"detail": "Not Found"})));
    assert_eq!(gateway.post("/api/models", &json!({})).await, (405, json!({"detail": "Method Not Allowed"})));
}

#[tokio::test]
async fn the_document_names_every_path_once() {
    let gateway = Gateway::start().await;
    let (status, document) = gateway.get("/openapi.json").await;
    assert_eq!(status, 200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/models/{name}"]["get"].is_object(), "{}", document["paths"]);
    // Every parameter of a path is described, and no other.
    for (path, item) in document["paths"].as_object().unwrap() {
        let named: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        for (method, operation) in item.as_object().unwrap() {
            let described = operation["parameters"].as_array().into_iter().flatten();
            let described: Vec<&str> =
                described.filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap()).collect();
            assert_eq!(named, described, "{method} {path}");
        }
    }
}
