//! Health probes and metrics for operators.

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::{Api, AppState, HttpResult, Problem, Shared, auth, reply};
use crate::budgets::Usage;
use crate::domain::HookEvent;
use crate::domain::budget::cost_of;
use crate::executor::mcp::ServerState as UpstreamState;
use crate::hooks::HookOutcome;
use crate::store::StoreError;
use crate::store::workers::QueueLoad;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{BudgetGauges, QueueGauges, UpstreamStatus, process};

/// Timeout of the database check.
const PING: Duration = Duration::from_secs(1);

/// The time since its last request within which a worker counts as present, in milliseconds. Longer than a claim waits.
const LISTENING_MS: u64 = 90_000;

/// The response of the probes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Checks whether the process is running.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    security(()),
    responses((status = 200, description = "It lives", body = Health)))]
pub(super) async fn healthz() -> Response {
    reply::ok(&Health { status: "ok" })
}

/// Checks whether calls can be accepted: the database is available, and the service is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    security(()),
    responses((status = 200, description = "They can", body = Health),
        (status = 503, description = "They cannot")))]
pub(super) async fn readyz(State(state): State<AppState>) -> HttpResult {
    if state.engine.is_draining() {
        return Err(Problem::shutting_down());
    }
    if !is_store_up(&state).await {
        return Err(Problem::store_unavailable("the database is unavailable"));
    }
    Ok(reply::ok(&Health { status: "ok" }))
}

/// Returns `true` if the database is available, knows this node and accepted the last commit.
async fn is_store_up(state: &AppState) -> bool {
    let answers = tokio::time::timeout(PING, state.stores.ping()).await;
    state.engine.is_signed_on() && state.journal.is_healthy() && matches!(answers, Ok(Ok(())))
}

/// Prometheus' text format.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics of this node in the Prometheus text format.
///
/// See `docs/reference/metrics.md` for their meanings. They cover all tenants, including tool names, and are therefore for the
/// operator only: keys of the tenant `default` that are not restricted to certain tools.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The metrics, even if the database is unavailable", body = String, content_type = "text/plain"),
        (status = 403, description = "`SCOPE_MISSING`: the key lacks the required scope. `FORBIDDEN`: the key belongs \
            to another tenant than `default`, or is restricted to certain tools")))]
pub(super) async fn metrics(Api { state, access }: Api) -> HttpResult {
    auth::require_operator(&access)?;
    let is_up = is_store_up(&state).await;
    let metrics = state.metrics.clone();
    // Without the database, the last values stay.
    if let Ok(Ok(budgets)) = tokio::time::timeout(PING, budget_gauges(&state)).await {
        metrics.set_budgets(&budgets);
    }
    if let Ok(Ok(queues)) = tokio::time::timeout(PING, queue_gauges(&state)).await {
        metrics.set_queues(&queues);
    }
    // Rendering takes a moment with a thousand tools.
    let text = tokio::task::spawn_blocking(move || {
        update_gauges(&state, &state.metrics, is_up);
        state.metrics.render()
    });
    let text = text.await.unwrap_or_else(|_| metrics.render());
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}

/// Returns the use of all budgets.
async fn budget_gauges(state: &Shared) -> Result<Vec<BudgetGauges>, StoreError> {
    let (budgets, mut gauges) = (state.engine.budgets(), Vec::new());
    for (tenant, budget) in budgets.all() {
        let Usage { used, reserved, .. } = budgets.usage(&budget).await?;
        let limit = budget.definition.limit();
        let gauge = |unit, values| {
            let (tenant, budget) = (tenant.as_str().to_owned(), budget.definition.name.clone());
            BudgetGauges { tenant, budget, unit, values }
        };
        gauges.extend(limit.calls.map(|calls| gauge("calls", [used.calls, reserved.calls, calls].map(|n| n as f64))));
        gauges.extend(limit.cost.map(|cost| gauge("cost", [used.cost, reserved.cost, cost].map(cost_of))));
    }
    Ok(gauges)
}

/// Returns the load of all queues for workers.
async fn queue_gauges(state: &Shared) -> Result<Vec<QueueGauges>, StoreError> {
    let mut workers = state.stores.worker_counts(LISTENING_MS).await?;
    let mut gauges = Vec::new();
    for QueueLoad { tenant, queue, waiting, running, oldest_ms } in state.stores.queue_loads(None).await? {
        let key = (tenant.as_str().to_owned(), queue);
        let oldest = oldest_ms.unwrap_or(0) as f64 / 1000.0;
        let values = [waiting as f64, running as f64, oldest, workers.remove(&key).unwrap_or(0) as f64];
        gauges.push(QueueGauges { tenant: key.0, queue: key.1, values });
    }
    let idle = workers.into_iter();
    gauges.extend(idle.map(|((tenant, queue), count)| QueueGauges {
        tenant,
        queue,
        values: [0.0, 0.0, 0.0, count as f64],
    }));
    Ok(gauges)
}

fn update_gauges(state: &Shared, metrics: &Metrics, is_up: bool) {
    let set = |name, value: usize| metrics.set(name, &[], value as f64);
    let load = state.engine.load();
    set("toolpost_queue_length", load.waiting);
    set("toolpost_queue_accepted", load.queued);
    set("toolpost_queue_accepted_limit", load.most_queued);
    set("toolpost_in_flight_memory_bytes", load.memory_kib * 1024);
    set("toolpost_in_flight_memory_limit_bytes", load.max_memory_kib * 1024);
    set("toolpost_backlog_calls", load.backlog);
    set("toolpost_journal_changes_waiting", state.journal.waiting());
    set("toolpost_database_up", is_up.into());
    set("toolpost_tools", state.engine.registry().default_catalog().snapshot().all().len());
    set("toolpost_tools_paused", state.engine.pauses().resting());
    metrics.set_count("toolpost_tool_pauses_total", &[], state.engine.pauses().paused());
    update_signals(state, metrics);
    for (stream, readers) in [("calls", state.bus.call_readers()), ("all", state.bus.readers())] {
        metrics.set("toolpost_sse_subscribers", &[("stream", stream)], readers as f64);
    }
    metrics.set_count("toolpost_sse_cut_off_total", &[], state.bus.cut_off());
    let hooks = state.engine.hooks().counts();
    for (event, outcome) in HookEvent::ALL.into_iter().flat_map(|event| HookOutcome::ALL.map(|one| (event, one))) {
        let labels = [("event", event.as_str()), ("outcome", outcome.as_str())];
        metrics.set_count("toolpost_hook_calls_total", &labels, hooks.ended(event, outcome));
    }
    for (outcome, count) in state.callback_counts.by_outcome() {
        metrics.set_count("toolpost_callbacks_total", &[("outcome", outcome)], count);
    }
    let upstreams = state.upstreams.list();
    let standings = upstreams.iter().map(|server| UpstreamStatus {
        name: &server.name,
        state: server.state.as_str(),
        available: server.tools.len(),
        quarantined: server.quarantined.len(),
        left_out: server.left_out.len(),
    });
    metrics.set_upstreams(&UpstreamState::ALL.map(UpstreamState::as_str), standings);
    update_process_gauges(metrics);
}

fn update_signals(state: &Shared, metrics: &Metrics) {
    let counts = state.stores.signals().counts();
    for (kind, count) in counts.sent() {
        metrics.set_count("toolpost_signals_sent_total", &[("kind", kind)], count);
    }
    for (kind, count) in counts.received() {
        metrics.set_count("toolpost_signals_received_total", &[("kind", kind)], count);
    }
    metrics.set_count("toolpost_signal_reconnects_total", &[], counts.reconnects());
}

fn update_process_gauges(metrics: &Metrics) {
    let stats = process::stats();
    let gauges = [
        ("process_resident_memory_bytes", stats.resident_bytes),
        ("process_open_fds", stats.open_fds),
        ("process_max_fds", stats.max_fds),
    ];
    for (name, value) in gauges {
        if let Some(value) = value {
            metrics.set(name, &[], value as f64);
        }
    }
    if let Some(seconds) = stats.cpu_seconds {
        metrics.set_count("process_cpu_seconds_total", &[], seconds);
    }
}
