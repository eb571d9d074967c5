//! `GET /system`: what an operator sees of the nodes, and the settings of this node.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::responses::Unavailable;
use super::{Api, HttpResult, Problem, Shared, auth, reply};
use crate::domain::Time;
use crate::store::Db;
use crate::store::db::without_password;

/// The service and its nodes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct System {
    /// The version of this node.
    version: &'static str,
    /// The name of this node.
    node: String,
    /// When this node started.
    started_at: Time,
    /// `sqlite` or `postgres`.
    database: &'static str,
    /// The nodes of the service, and lost nodes whose calls are not adopted yet.
    nodes: Vec<Node>,
    /// The queue of this node.
    queue: Queue,
    /// The journal of this node.
    journal: Journal,
    /// How long calls and their events are kept; 0 means forever.
    retention: Retention,
    /// The settings in force on this node, by name. Secrets are shown as `…`.
    settings: Vec<Setting>,
}

/// A node of the service.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Node {
    /// The name of the node.
    id: String,
    /// Whether it answered this request.
    is_this: bool,
    /// The last heartbeat.
    last_heartbeat_at: Option<Time>,
    /// Whether its lease has expired. Other nodes adopt its calls.
    is_lost: bool,
    /// Number of calls that run there.
    running: i64,
    /// Number of accepted calls that do not run yet.
    waiting: i64,
}

/// The queue of a node.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Queue {
    /// Number of detached calls that wait for a place to run.
    waiting: usize,
    /// Number of detached calls, waiting and running.
    accepted: usize,
    /// Maximum number of detached calls.
    limit: usize,
    /// Whether the node is shutting down and accepts no calls.
    draining: bool,
}

/// The journal of a node, which commits changes of calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Journal {
    /// Whether the database accepted the last commit.
    healthy: bool,
    /// Number of changes that callers wait for.
    backlog: usize,
    /// Number of changes that wait for a commit.
    waiting: usize,
    /// How long the last commit took, in milliseconds.
    last_commit_ms: f64,
}

/// The retention of calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Retention {
    /// Time after the end of a call, in milliseconds.
    calls_ms: u64,
    /// Time for progress reports after the end of their call, in milliseconds.
    events_ms: u64,
}

/// A setting in force.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Setting {
    /// The name, such as `server.listen`.
    name: String,
    /// The value.
    value: Value,
}

/// Shows the nodes of the service with their load, and the settings of the node that answers.
///
/// It covers all tenants and is therefore for the operator only: keys of the tenant `default` that are not restricted to
/// certain tools.
#[utoipa::path(get, path = "/system", operation_id = "system", tag = "operations",
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The service", body = System),
        (status = 403, description = "`SCOPE_MISSING`: the key lacks the required scope. `FORBIDDEN`: the key belongs \
            to another tenant than `default`, or is restricted to certain tools"), Unavailable))]
pub(super) async fn read(Api { state, access }: Api) -> HttpResult {
    auth::require_operator(&access)?;
    let this = state.engine.node().to_string();
    let lease = Duration::from_millis(state.config.node.lease_ms);
    let nodes = state.stores.node_loads(lease).await?.into_iter().map(|load| Node {
        is_this: load.node == this,
        id: load.node,
        last_heartbeat_at: load.last_beat_at,
        is_lost: load.is_over,
        running: load.running,
        waiting: load.waiting,
    });
    let load = state.engine.load();
    Ok(reply::ok(&System {
        version: env!("CARGO_PKG_VERSION"),
        nodes: nodes.collect(),
        node: this,
        started_at: Time(state.clock.now().0.saturating_sub_unsigned(state.metrics.uptime().as_micros() as u64)),
        database: match state.stores.db() {
            Db::Sqlite(_) => "sqlite",
            Db::Postgres(_) => "postgres",
        },
        queue: Queue {
            waiting: load.waiting,
            accepted: load.queued,
            limit: load.most_queued,
            draining: state.engine.is_draining(),
        },
        journal: Journal {
            healthy: state.journal.is_healthy(),
            backlog: load.backlog,
            waiting: state.journal.waiting(),
            last_commit_ms: state.metrics.last_commit().as_secs_f64() * 1000.0,
        },
        retention: Retention { calls_ms: state.config.retention.calls_ms, events_ms: state.config.retention.events_ms },
        settings: settings(&state)?,
    }))
}

/// Lists the settings of this node.
fn settings(state: &Shared) -> HttpResult<Vec<Setting>> {
    let Ok(Value::Object(all)) = serde_json::to_value(&state.config) else { return Err(Problem::internal()) };
    let mut settings = Vec::new();
    flatten("", all, &mut settings);
    for setting in settings.iter_mut().filter(|setting| setting.name == "store.database_url") {
        setting.value = without_password(&state.config.database_url()).into();
    }
    Ok(settings)
}

/// Adds each value of an object with its path.
fn flatten(prefix: &str, object: Map<String, Value>, settings: &mut Vec<Setting>) {
    for (key, value) in object {
        let name = format!("{prefix}{key}");
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(&format!("{name}."), inner, settings),
            value => settings.push(Setting { name, value }),
        }
    }
}
