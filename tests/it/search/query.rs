//! `GET /tools?q=…`: matching tools, best first.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::app::echo_tool;
use crate::support::shapes::names;

fn described(name: &str, title: &str, description: &str, tags: Value, properties: Value) -> Value {
    let mut tool = echo_tool(name, json!({"type": "object", "properties": properties}));
    (tool["title"], tool["description"], tool["tags"]) = (title.into(), description.into(), tags);
    tool
}

/// Starts a service with a few tools in addition to the four that always exist.
async fn service() -> App {
    let app = App::on_sqlite().await;
    let tools = [
        described("getWeather", "Forecast", "Tells what it is like outside.", json!([]), json!({"city": {}})),
        described("mail.send", "Send mail", "Writes to a person.", json!(["email"]), json!({"recipient": {}})),
        described("read_file", "Read", "Reads a file, whatever the weather.", json!([]), json!({"path": {}})),
        described("query_orders", "查询订单", "查询订单的状态和物流信息。", json!(["电商"]), json!({"order_id": {}})),
    ];
    for tool in tools {
        app.register(tool).await;
    }
    app
}

async fn found(app: &App, query: &str) -> Value {
    app.get(&format!("/tools?q={query}")).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn best_match_comes_first_with_its_score_and_others_are_omitted() {
    let app = service().await;
    let list = found(&app, "weather").await;
    assert_eq!(names(&list["tools"]), ["getWeather", "read_file"]);
    let scores: Vec<f64> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["score"].as_f64().unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[1] > 0.0, "{scores:?}");
    assert_eq!(list["total"], 2);
    assert_eq!(found(&app, "quantum").await, json!({"tools": [], "total": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_text_of_a_tool_is_searched() {
    let app = service().await;
    for (query, expected) in [
        ("GETWEATHER", "getWeather"),
        ("forecasts", "getWeather"),
        ("outside", "getWeather"),
        ("email", "mail.send"),
        ("recipients", "mail.send"),
        ("send%20a%20mail", "mail.send"),
        ("%E7%89%A9%E6%B5%81", "query_orders"),
        ("%E7%94%B5%E5%95%86", "query_orders"),
        ("%E6%88%91%E7%9A%84%E8%AE%A2%E5%8D%95%E5%9C%A8%E5%93%AA%E9%87%8C", "query_orders"),
    ] {
        assert_eq!(names(&found(&app, query).await["tools"])[0], expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vendor_list_has_scores_next_to_its_tools() {
    let app = service().await;
    for (format, count) in [("openai", 2), ("openai-strict", 2), ("anthropic", 2), ("gemini", 1), ("mcp", 2)] {
        let list = app.get(&format!("/tools?format={format}&q=weather")).await.ok();
        assert_eq!((names(&list["scores"]), &list["total"]), (vec!["getWeather", "read_file"], &json!(2)), "{format}");
        assert!(list["scores"][0]["score"].as_f64() > list["scores"][1]["score"].as_f64(), "{format}");
        assert_eq!(list["tools"].as_array().unwrap().len(), count, "{format}");
        assert!(!list["tools"].to_string().contains("score"), "{format}");
    }
    let alias = app.get("/tools?format=openai&q=mail").await.ok();
    assert_eq!(alias["scores"][0]["name"], alias["tools"][0]["function"]["name"]);
    let none = app.get("/tools?format=gemini&q=quantum").await.ok();
    assert_eq!(none, json!({"tools": [], "total": 0, "left_out": [], "scores": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_keeps_the_best_and_reports_the_total() {
    let app = service().await;
    for format in ["native", "mcp"] {
        let list = app.get(&format!("/tools?q=weather&limit=1&format={format}")).await.ok();
        assert_eq!((names(&list["tools"]), &list["total"]), (vec!["getWeather"], &json!(2)), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_search_is_the_full_list() {
    let app = service().await;
    let all = app.get("/tools").await.body;
    assert_eq!(app.get("/tools?q=").await.body, all);
    assert_eq!(app.get("/tools?q=%20").await.body, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_tool_is_found_immediately_and_a_removed_one_is_not() {
    let app = service().await;
    app.register(described("teleport", "Teleport", "Quantum travel.", json!([]), json!({}))).await;
    assert_eq!(names(&found(&app, "quantum").await["tools"]), ["teleport"]);
    app.delete("/tools/teleport").await;
    assert_eq!(found(&app, "quantum").await["total"], 0);
}
