//! Health probes for operators.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::problem::Problem;
use super::{AppState, reply};

/// Timeout of the database check.
const PING: Duration = Duration::from_secs(1);

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
    reply::json(StatusCode::OK, &Health { status: "ok" })
}

/// Checks whether calls can be accepted: the database is available, and the service is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    security(()),
    responses((status = 200, description = "They can", body = Health),
        (status = 503, description = "They cannot")))]
pub(super) async fn readyz(State(state): State<AppState>) -> Result<Response, Problem> {
    if state.engine.is_draining() {
        return Err(Problem::shutting_down());
    }
    if !is_store_up(&state).await {
        return Err(Problem::store_unavailable("the database is unavailable"));
    }
    Ok(reply::json(StatusCode::OK, &Health { status: "ok" }))
}

/// Returns `true` if the database is available and accepted the last commit.
pub(super) async fn is_store_up(state: &AppState) -> bool {
    let answers = tokio::time::timeout(PING, state.stores.ping()).await;
    state.journal.is_healthy() && matches!(answers, Ok(Ok(())))
}
