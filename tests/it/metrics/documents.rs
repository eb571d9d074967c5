//! The reference and the dashboard match the catalog of metrics.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toolpost::telemetry::metrics::catalog::{self, CATALOG, Kind};

use super::metric_of;
use crate::support::fixture::{project_file, same_as_file};
use crate::support::{App, Backend};
use crate::upstreams::{self, Fixture};

#[tokio::test(flavor = "multi_thread")]
async fn exported_metrics_equal_the_catalogue() {
    // A server that cannot be started has all its series from the beginning.
    let fixture = Fixture::named(&[]);
    let file = fixture.file_of(&json!({"gone": {"command": "/nowhere/at-all"}}));
    let app = App::start_with(Backend::Sqlite, upstreams::options(file)).await;
    app.post("/budgets", &json!({"name": "b", "window_ms": 1000, "max_calls": 9})).await;
    app.post("/workers/q/claim", &json!({"worker": "w"})).await.ok();
    app.get("/workers").await.ok();
    app.call("echo", json!({})).await;
    let found = app.counted(&[(r#"toolpost_calls_total{tool="echo",outcome="SUCCESS"}"#, 1.0)]).await;
    let kind = |kind: Kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let described: BTreeMap<String, String> =
        CATALOG.iter().map(|one| (one.name.to_owned(), kind(one.kind).to_owned())).collect();
    assert_eq!(found.families, described);
    for one in CATALOG {
        for series in found.samples.keys().filter(|series| series.split('{').next() == Some(one.name)) {
            let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
            let names: Vec<&str> = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
            assert_eq!(names, one.labels, "{series}");
        }
    }
}

#[test]
fn reference_equals_the_catalogue() {
    same_as_file("docs/reference/metrics.md", &catalog::reference(), "UPDATE_FIXTURES=1 cargo test --test it metrics");
}

/// Returns the words of a query that look like names of metrics.
fn names(query: &str) -> BTreeSet<&str> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("toolpost_") || word.starts_with("process_")).collect()
}

#[test]
fn dashboard_uses_existing_metrics() {
    let text = std::fs::read_to_string(project_file("deploy/grafana/toolpost.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (mut ids, mut shown) = (BTreeSet::new(), BTreeSet::new());
    let mut queries: Vec<&str> = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{} twice", panel["id"]);
        if panel["type"] != "row" {
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty() && panel["title"].is_string(), "{panel}");
            queries.extend(targets.iter().map(|target| target["expr"].as_str().unwrap()));
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    queries.extend(variables.iter().filter_map(|variable| variable["query"].as_str()));
    for query in queries {
        for name in names(query) {
            let metric = metric_of(name).unwrap_or_else(|| panic!("there is no {name}: {query}"));
            shown.insert(metric);
        }
    }
    let forgotten: Vec<&str> = CATALOG.iter().map(|one| one.name).filter(|name| !shown.contains(name)).collect();
    assert_eq!(forgotten, [] as [&str; 0], "no panel shows them");
}
