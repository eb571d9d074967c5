//! The HTTP API. `routes` lists all routes; each resource has its own submodule.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::handler::Handler;
use axum::http::Uri;
use axum::response::NoContent;
use axum::routing::{Route, post};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::layer::layer_fn;
use utoipa::openapi::OpenApi;

use crate::app::App;
use crate::auth::Auth;
use crate::callbacks::Counts;
use crate::config::Config;
use crate::domain::Clock;
use crate::engine::Engine;
use crate::events::Bus;
use crate::executor::Vault;
use crate::executor::signing_key::SigningKey;
use crate::store::{Journal, Stores};
use crate::telemetry::{Metrics, Tracer};
use crate::upstreams::Upstreams;

mod approvals;
mod arguments;
mod auth;
mod budgets;
mod call_body;
mod call_response;
mod calls;
mod cancel_calls;
mod client_address;
mod compression;
mod console;
mod control;
mod cors;
mod docs;
mod event_response;
mod events;
mod extract;
mod fast_path;
mod groups;
mod hooks;
mod hosts;
mod idempotency;
mod imports;
mod keys;
mod large_requests;
mod layers;
mod listing;
mod mcp;
mod model_stream;
mod openapi_common;
mod openapi_patches;
mod operations;
mod paths;
mod policies;
mod presets;
mod problem;
mod range;
mod reply;
mod request_headers;
mod request_metrics;
mod request_scope;
mod requests;
mod rerun;
mod responses;
mod routes;
mod security;
mod server;
mod sessions;
mod stats;
mod stream_writer;
mod subscribers;
mod system;
mod timed_io;
mod tool_list;
mod tools;
mod upstreams;
mod wait;
mod workers;

pub use budgets::BudgetView;
pub use problem::Problem;

use auth::Api;
use extract::{JsonBody, Params};
use fast_path::FastPath;
use large_requests::LargeRequests;
use layers::{HttpService, body_limit};
use problem::{FieldError, HttpResult};
use responses::BodyErrors;
use server::Server;

/// The time that connections get to close once all other work has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The state shared by all handlers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState(Arc<Shared>);

impl std::ops::Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The fields of [`AppState`].
#[derive(Debug)]
pub struct Shared {
    config: Config,
    engine: Arc<Engine>,
    /// Data that belongs to no tenant. Data of a tenant is accessed through [`Access`](crate::access::Access).
    stores: Stores,
    auth: Arc<Auth>,
    bus: Bus,
    clock: Clock,
    journal: Journal,
    signing_key: SigningKey,
    vault: Vault,
    metrics: Metrics,
    tracer: Tracer,
    callback_counts: Arc<Counts>,
    mcp: mcp::Endpoints,
    /// Permits for open event streams.
    subscribers: Arc<Semaphore>,
    /// Permits for concurrent imports of documents.
    imports: Semaphore,
    upstreams: Arc<Upstreams>,
    large_requests: Arc<LargeRequests>,
    /// Cancelled when streams must end.
    closing: CancellationToken,
}

/// Returns the OpenAPI document of this version, for a service that requires API keys.
#[must_use]
pub fn openapi() -> Value {
    openapi_patches::refined(&derived())
}

/// Returns the document as derived from the routes, before refinement.
fn derived() -> OpenApi {
    docs::finish(routes::document())
}

/// Builds the service for the whole API.
fn service(state: AppState) -> impl HttpService {
    let max_body = state.config.server.max_body_bytes;
    let (router, needs) = routes::router();
    let measure = request_metrics::MeasureLayer::new(&state.metrics, state.tracer.clone(), &needs);
    let gate = auth::Gate::new(state.clone(), needs);
    // Metrics wrap the gate so that rejected requests are counted, too. The gate wraps the limit so that a key is checked first.
    let calls = gate.of_calls().service(body_limit(max_body, calls::execute.with_state(state.clone())));
    let calls = measure.at(paths::CALLS, &paths::METHOD).service(calls);
    let mcp = gate.at(paths::MCP).service(body_limit(max_body, mcp::post.with_state(state.clone())));
    let mcp = measure.at(paths::MCP, &paths::METHOD).service(mcp);
    let import = post(imports::openapi).layer(layer_fn(|route: Route| body_limit(imports::MAX_BODY_BYTES, route)));
    let large_bodies = Router::new()
        .route(paths::IMPORT, import)
        .route(paths::MODEL_STREAM, post(model_stream::pipe))
        .with_state(state.clone());
    let (measured, gated) = (measure.clone(), gate.clone());
    let large_bodies = large_bodies.layer(layer_fn(move |route: Route| measured.service(gated.service(route))));
    let router = router
        .merge(docs::router())
        .merge(console::router())
        .fallback(unknown_path)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(state.clone());
    // `layer` applies to the routes that exist at this point, so no route may be added after it.
    let router = router.layer(layer_fn(move |route: Route| measure.service(gate.service(body_limit(max_body, route)))));
    let compressed = compression::compressed(router.clone());
    layers::around(FastPath { calls, mcp, router, large_bodies, compressed }, state)
}

async fn unknown_path(uri: Uri) -> Problem {
    match paths::has_upper_case(&uri) {
        true => Problem::not_found("no such path: paths are in lower case; see /openapi.json"),
        false => Problem::not_found("no such path; see /openapi.json"),
    }
}

/// Serves until `drain` is cancelled. Then rejects new calls, lets running calls end, and closes all connections.
///
/// # Errors
/// Returns an error if the listener's address cannot be read or the server task fails.
pub async fn serve(app: App, listener: TcpListener, drain: CancellationToken) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    app.reporting.set_base_to_listener(address);
    if !address.ip().to_canonical().is_loopback() {
        app.auth.close();
    }
    let closing = CancellationToken::new();
    // Connections that large requests have opened need its threads until the app has stopped.
    let large_requests = Arc::<LargeRequests>::default();
    let state = AppState(Arc::new(Shared {
        config: app.config.clone(),
        engine: app.engine.clone(),
        stores: app.store.stores().clone(),
        auth: app.auth.clone(),
        bus: app.bus.clone(),
        clock: app.clock.clone(),
        journal: app.journal.clone(),
        signing_key: app.signing_key.clone(),
        vault: app.vault.clone(),
        metrics: app.metrics.clone(),
        tracer: app.tracer.clone(),
        callback_counts: app.callback_counts.clone(),
        mcp: mcp::endpoints(&app, listener.local_addr()?, closing.clone()),
        subscribers: Arc::new(Semaphore::new(app.config.events.max_subscribers.min(Semaphore::MAX_PERMITS))),
        imports: Semaphore::new(imports::MAX_CONCURRENT),
        upstreams: app.upstreams.clone(),
        large_requests: large_requests.clone(),
        closing: closing.clone(),
    }));
    let server = Server::new(service(state.clone()), state);
    let mut server = tokio::spawn(server.run(listener, closing.clone()));
    tokio::select! {
        // The server ends early only if its task fails.
        ended = &mut server => {
            app.stop().await;
            return ended.map_err(std::io::Error::other);
        }
        () = drain.cancelled() => {}
    }
    // The listener stays open while calls end, so that new requests get a 503 with `Retry-After`.
    app.engine.drain(Duration::from_millis(app.config.server.drain_ms)).await;
    closing.cancel();
    let ended = tokio::time::timeout(CLOSE_TIMEOUT, &mut server).await;
    if ended.is_err() {
        server.abort();
        let _ = server.await;
    }
    app.stop().await;
    drop(large_requests);
    Ok(())
}
