//! For whoever keeps the service running.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::problem::Problem;
use super::{AppState, reply};

/// How long the database may take to say that it is there.
const PING: Duration = Duration::from_secs(1);

/// What the probes answer.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    security(()),
    responses((status = 200, description = "It lives", body = Health)))]
pub(super) async fn healthz() -> Response {
    reply::json(StatusCode::OK, &Health { status: "ok" })
}

/// Whether calls can be accepted: the database answers, and the service is not stopping.
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

/// Whether the database answers, and took the last commit.
pub(super) async fn is_store_up(state: &AppState) -> bool {
    let answers = tokio::time::timeout(PING, state.stores.ping()).await;
    state.journal.is_healthy() && matches!(answers, Ok(Ok(())))
}
