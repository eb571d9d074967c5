//! Paths with needless slashes: each means the path without them, for every route.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::mcp::{message, posted};
use crate::support::client::send;
use crate::support::{App, Client};

/// Returns the methods and paths of all routes, with a value for each parameter.
async fn routes(app: &Client) -> Vec<(Method, String)> {
    let document = app.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap().clone();
    let filled = |path: &str| {
        let segments = path.split('/').map(|segment| if segment.starts_with('{') { "unknown" } else { segment });
        segments.collect::<Vec<_>>().join("/")
    };
    let methods = |item: &Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let all = paths.iter().flat_map(|(path, item)| methods(item).into_iter().map(move |method| (method, path)));
    all.filter_map(|(method, path)| Some((method.to_uppercase().parse().ok()?, filled(path)))).collect()
}

/// Returns the status of a response, whose body may be a stream without an end.
async fn status(app: &Client, method: &Method, path: &str) -> StatusCode {
    app.request(method.clone(), path).send().await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_slashes_do_not_change_a_route() {
    let app = App::on_sqlite().await;
    let routes = routes(&app).await;
    assert!(routes.len() > 80, "{}", routes.len());
    for (method, path) in &routes {
        let plain = status(&app, method, path).await;
        for other in [format!("{path}/"), format!("/{path}"), format!("{}//", path.replace('/', "//"))] {
            assert_eq!(status(&app, method, &other).await, plain, "{method} {other}");
        }
    }
    let labels = app.get("/metrics").await.text();
    assert!(
        labels.contains("\"/tools/{name}\"") && !labels.contains("//") && !labels.contains("/tools/\""),
        "{labels}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn needless_slashes_need_the_same_key() {
    let app = App::on_sqlite().await;
    let routes = routes(&app).await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let (reader, _) = app.with_key(&admin).key(json!({"scopes": ["work"]})).await;
    for (name, client) in [("nobody", (*app).clone()), ("worker", app.with_key(&reader))] {
        for (method, path) in &routes {
            let plain = status(&client, method, path).await;
            let is_refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&plain);
            for other in [format!("{path}/"), format!("/{path}")] {
                let other = status(&client, method, &other).await;
                assert!(other == plain || !is_refused, "{name} {method} {path}: {plain}, then {other}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_and_calls_are_served_with_a_trailing_slash() {
    let app = App::on_sqlite().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for path in ["/mcp/", "//mcp", "/mcp//"] {
        let request = app.request(Method::POST, path).header("accept", "application/json, text/event-stream");
        assert!(message(&send(request.json(&list)).await)["result"]["tools"].is_array(), "{path}");
    }
    let call = json!({"name": "calculate", "arguments": {"expression": "6 * 7"}});
    assert_eq!(app.post("/tool-calls/?wait_ms=1000", &call).await.ok()["output"], "42");
    assert_eq!(send(posted(&app, &list)).await.status, 200);
    // A method that the route does not have is a 405, as without the slash.
    let wrong = app.delete("/tool-calls/").await;
    assert!(!wrong.header("allow").is_empty());
    wrong.problem(405);
}

#[tokio::test(flavor = "multi_thread")]
async fn path_is_case_sensitive_and_the_problem_says_so() {
    let app = App::on_sqlite().await;
    for path in ["/MCP", "/Tools/echo", "/TOOL-CALLS/"] {
        let problem = app.get(path).await.problem(404);
        assert!(problem["detail"].as_str().unwrap().contains("lower case"), "{problem}");
    }
    app.echo_of("Loud", json!({})).await;
    assert_eq!(app.get("/tools/Loud/").await.ok()["name"], "Loud");
    let unknown = app.get("/nothing/").await.problem(404);
    assert!(!unknown["detail"].as_str().unwrap().contains("lower case"), "{unknown}");
}
