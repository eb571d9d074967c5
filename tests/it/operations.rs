//! Health checks, the documentation page and shutdown.

use reqwest::{Method, Url};
use serde_json::json;

use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, Client, HttpTool, bounded, eventually};

on_both_databases!(
    async fn running_service_is_alive_and_ready(backend: Backend) {
        let app = App::start(backend).await;
        assert_eq!(app.get("/healthz").await.status, 200);
        assert_eq!(app.get("/readyz").await.status, 200);
    }
);

/// Returns the values of all `src` and `href` attributes.
fn references(html: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for attribute in ["src=\"", "href=\"", "src='", "href='"] {
        let quote = attribute.chars().last().unwrap();
        found.extend(html.split(attribute).skip(1).filter_map(|rest| rest.split(quote).next()));
    }
    found
}

/// Returns the final URL of the page and its text.
async fn page(client: &Client, path: &str) -> (Url, String) {
    let answer = bounded("the page", client.request(Method::GET, path).send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let media_type = answer.headers()["content-type"].to_str().unwrap();
    assert!(media_type.starts_with("text/html"), "{media_type}");
    (answer.url().clone(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn documentation_loads_nothing_external() {
    let app = App::on_sqlite().await;
    let (_, html) = page(&app, "/docs").await;
    for reference in references(&html) {
        assert!(!reference.starts_with("http:") && !reference.starts_with("https:"), "{reference}");
        assert!(!reference.starts_with('/'), "not relative: {reference}");
    }
    for outside in ["src=http", "href=http", "@import", "url(http"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documentation_assets_exist() {
    let app = App::on_sqlite().await;
    let (base, html) = page(&app, "/docs").await;
    for reference in references(&html).into_iter().filter(|r| !r.starts_with('#') && !r.starts_with("data:")) {
        let path = base.join(reference).unwrap().path().to_owned();
        assert_eq!(app.get(&path).await.status, 200, "{reference}");
    }
}

on_both_databases!(
    async fn running_call_ends_while_the_service_stops(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("in time")))).await;
        app.http_tool("slow", &server).await;
        let client = (*app).clone();
        let caller = tokio::spawn({
            let client = client.clone();
            async move { client.call("slow", json!({})).await }
        });
        server.received(1).await;

        let restarting = tokio::spawn(app.restart());
        eventually("the service to stop accepting", || async { (!accepts(&client).await).then_some(()) }).await;
        server.open();
        let call = caller.await.unwrap();
        assert_eq!(succeeded(&call), "in time");

        let app = bounded("the restart", restarting).await.unwrap();
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        assert_eq!(app.stats("slow").await["success_count"], 1);
    }
);

/// Returns `true` if the service reports that it is ready.
async fn accepts(client: &Client) -> bool {
    let answer = bounded("readyz", client.request(Method::GET, "/readyz").send()).await;
    answer.is_ok_and(|answer| answer.status() == 200)
}

on_both_databases!(
    async fn open_event_stream_does_not_delay_the_stop(backend: Backend) {
        let app = App::start(backend).await;
        let mut stream = app.events("/events").await;
        app.call("echo", json!({})).await;
        stream.until(crate::support::Event::is_result).await;
        let app = bounded("the restart", app.restart()).await;
        assert_eq!(app.get("/readyz").await.status, 200);
    }
);

on_both_databases!(
    async fn restarted_service_has_its_tools_calls_and_counts(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_of("mine", json!({})).await;
        app.call("mine", json!({"a": 1})).await;
        let before = [app.get("/tools").await.ok(), app.get("/tool-calls").await.ok(), app.get("/stats").await.ok()];
        let app = app.restart().await;
        let after = [app.get("/tools").await.ok(), app.get("/tool-calls").await.ok(), app.get("/stats").await.ok()];
        assert_eq!(after, before);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn two_services_do_not_see_each_others_databases() {
    requires_postgres!();
    let (one, other) = (App::start(Backend::Postgres).await, App::start(Backend::Postgres).await);
    one.echo_of("mine", json!({})).await;
    one.call("echo", json!({})).await;
    other.get("/tools/mine").await.problem(404);
    assert_eq!(other.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_service_releases_everything() {
    let mut config = toolpost::config::Config::default();
    config.store.database_url = "sqlite::memory:".to_owned();
    config.tools.discovery = true;
    let app = toolpost::app::App::builder(config).start().await.unwrap();
    let registry = std::sync::Arc::downgrade(app.engine.registry());
    let shown = std::sync::Arc::downgrade(&registry.upgrade().unwrap().default_catalog().snapshot());
    app.stop().await;
    eventually("its background tasks to end", || async { registry.upgrade().is_none().then_some(()) }).await;
    assert!(shown.upgrade().is_none(), "a tool holds what shows it");
}
