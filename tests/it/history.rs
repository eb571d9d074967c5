//! Filters of `GET /tool-calls`, alone and combined, and the indexes behind them.

use serde_json::{Value, json};

use crate::support::calls::id_of;
use crate::support::shapes::ids;
use crate::support::{App, Backend, Client};

mod filters;
mod plans;
mod words;

async fn listed(client: &Client, query: &str) -> Vec<String> {
    ids(&client.get(&format!("/tool-calls?{query}")).await.ok()["tool_calls"])
}

/// Returns the ids on all pages of the query.
async fn walked(client: &Client, query: &str) -> Vec<String> {
    let (mut found, mut path) = (Vec::new(), format!("/tool-calls?{query}"));
    loop {
        let page = client.get(&path).await.ok();
        found.extend(ids(&page["tool_calls"]));
        let Some(cursor) = page["next_cursor"].as_str() else { return found };
        path = format!("/tool-calls?{query}&cursor={cursor}");
    }
}

async fn called(app: &App, name: &str, arguments: Value) -> String {
    id_of(&app.call(name, arguments).await)
}
