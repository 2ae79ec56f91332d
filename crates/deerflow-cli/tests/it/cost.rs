//! What a run costs, from the prices in the configuration.

use crate::support::World;
use deerflow_testkit::Turn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Models `priced` and `unpriced` on one scripted server.
async fn world() -> World {
    let world = World::scripted().await;
    let url = world.model().base_url();
    let model = |name: &str, more: &str| {
        format!("  - {{name: {name}, use: openai, model: m, base_url: \"{url}\", api_key: test-key-123456{more}}}\n")
    };
    let priced = ", pricing: {currency: CNY, input_per_million: 2, output_per_million: 8}";
    let config = format!("models:\n{}{}title: {{enabled: false}}\n", model("priced", priced), model("unpriced", ""));
    world.home.write("config.yaml", config.as_bytes());
    world
}

async fn shown(world: &World) -> (String, Value) {
    let text = world.run(&["threads", "show", "t"]).await.expect_code(0).stdout;
    let json = world.run(&["threads", "show", "t", "--json"]).await.expect_code(0).stdout;
    (text, serde_json::from_str(&json).unwrap())
}

#[tokio::test]
async fn the_price_of_the_model_gives_the_cost_of_run_and_thread() {
    let world = world().await;
    world.model().push(Turn::text("one").usage(1_000, 100));
    let ran = world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stdout.contains("1000 tokens in, 100 out · 0.0028 CNY · priced"), "{}", ran.stdout);
    world.model().push(Turn::text("two").usage(500, 0));
    let (ran, end) = world.run_json(&["more", "--thread", "t"]).await;
    ran.expect_code(0);
    assert_eq!(end["cost"], json!({"amount": 0.001, "currency": "CNY"}));
    let (text, json) = shown(&world).await;
    assert!(text.contains("1500 tokens in, 100 out · 0.0038 CNY\n"), "{text}");
    assert_eq!(json["costs"], json!([{"amount": 0.0038, "currency": "CNY"}]));
    assert_eq!(
        (&json["runs"], &json["usage"]["total_tokens"], &json["unpriced_runs"]),
        (&json!(2), &json!(1600), &json!(0))
    );
}

#[tokio::test]
async fn without_a_price_or_a_token_count_no_cost_is_made_up() {
    let world = world().await;
    world.model().push(Turn::text("one").usage(1_000, 100));
    let ran = world.run(&["run", "go", "--thread", "t", "--model", "unpriced"]).await.expect_code(0);
    assert!(ran.stdout.contains("1000 tokens in, 100 out · unpriced · thread t"), "{}", ran.stdout);
    world.model().push(Turn::text("two").usage(0, 0));
    let (_, end) = world.run_json(&["go", "--thread", "t"]).await;
    assert_eq!((&end["cost"], &end["usage"]["total_tokens"]), (&Value::Null, &json!(0)));
    let (text, json) = shown(&world).await;
    assert!(text.contains("1000 tokens in, 100 out\n"), "{text}");
    assert_eq!(json["costs"], json!([]));
    // With another run that has a price the sum says what it leaves out.
    world.model().push(Turn::text("three").usage(1_000, 0));
    world.run(&["run", "go", "--thread", "t", "--model", "priced"]).await.expect_code(0);
    let (text, json) = shown(&world).await;
    assert!(text.contains("0.002 CNY without 1 run that has no price"), "{text}");
    assert_eq!(json["unpriced_runs"], 1);
}
