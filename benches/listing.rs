//! A thousand tools: listed for a model's request, with and without cached renderings, and searched.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a benchmark that cannot go on fails"
)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::{Time, ToolDefinition};
use toolpost::formats::definitions::Format;
use toolpost::registry::{Snapshot, View};

const TOOLS: usize = 1000;
const SUBJECTS: [&str; 10] =
    ["orders", "customers", "invoices", "files", "messages", "events", "tickets", "users", "reports", "天气"];

fn tool(number: usize) -> ToolDefinition {
    let subject = SUBJECTS[number % SUBJECTS.len()];
    let definition = json!({
        "name": format!("service_{}.list-{number}", number / 50),
        "title": format!("List {subject}"),
        "description": format!("Lists {subject} of service {}, the newest first, as many as are asked for.", number / 50),
        "tags": [subject],
        "input_schema": {
            "type": "object", "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "What to look for.", "maxLength": 200},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "order": {"type": "string", "enum": ["newest", "oldest", "relevance"]},
                "filters": {
                    "type": "object",
                    "properties": {"since": {"type": "string", "format": "date-time"}, "owner": {"type": "string"}},
                },
            },
        },
        "executor": {"type": "external"},
    });
    serde_json::from_value(definition).expect("it is a definition")
}

/// Returns a snapshot of the same tools without cached lists.
fn anew(app: &App) -> Arc<Snapshot> {
    let tools = (0..TOOLS).map(|number| (tool(number), Time(0))).collect();
    app.engine.registry().show_files(tools).expect("they are good");
    app.engine.registry().default_catalog().snapshot().clone()
}

fn listing(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".to_owned();
    let app = runtime.block_on(App::builder(config).start()).expect("the service starts");
    let snapshot = anew(&app);
    for (name, format) in [("OpenAI", Format::OpenAi), ("Gemini", Format::Gemini), ("the prompt", Format::Prompt)] {
        let anew = |bench: &mut criterion::Bencher| {
            bench.iter_with_setup(|| anew(&app), |snapshot| snapshot.rendered(format, false).body.len());
        };
        criterion.bench_function(&format!("list 1,000 tools for {name}, anew"), anew);
        criterion.bench_function(&format!("list 1,000 tools for {name}, as kept"), |bench| {
            bench.iter(|| black_box(snapshot.rendered(format, false)).clone());
        });
    }
    criterion.bench_function("search 1,000 tools, anew", |bench| {
        bench.iter_with_setup(|| anew(&app), |snapshot| View::from(&*snapshot).search("newest customer orders").len());
    });
    criterion.bench_function("search 1,000 tools", |bench| {
        bench.iter(|| View::from(&*snapshot).search(black_box("newest customer orders")));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = listing
}
criterion_main!(benches);
