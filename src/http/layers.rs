//! What every request passes: its id, and problems written out.

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::AppState;
use super::problem::Problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken over from a caller.
const LONGEST_ID: usize = 128;

/// Gives the request an id (the caller's, if it is a good one), keeps a panic to itself, and writes problems out.
pub(super) async fn outermost(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let given = request.headers().get(REQUEST_ID).filter(|id| is_good(id)).cloned();
    let id = given.unwrap_or_else(|| new_id(&state));
    let mut response = match std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(request_id = ?id, "a request handler panicked");
            Problem::internal().into_response()
        }
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let mut written = problem.render(id.to_str().unwrap_or_default());
        // What the router has added, as `Allow`, stays.
        for (name, value) in response.headers() {
            written.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        written.headers_mut().remove(axum::http::header::CONTENT_LENGTH);
        response = written;
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn is_good(id: &HeaderValue) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

fn new_id(state: &AppState) -> HeaderValue {
    let id = state.engine.new_id();
    let mut text = uuid::Uuid::encode_buffer();
    // A hyphenated UUID is a valid header value.
    HeaderValue::from_str(id.as_hyphenated().encode_lower(&mut text)).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Paths that there are not.
pub(super) async fn no_such_path() -> Problem {
    Problem::not_found("there is nothing at this path; /openapi.json lists what there is")
}

/// Methods that a path does not have.
pub(super) async fn no_such_method() -> Problem {
    Problem::method_not_allowed()
}
