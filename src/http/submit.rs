//! The way of a request's calls into the engine.

use uuid::Uuid;

use super::problem::Problem;
use super::{AppState, conversation};
use crate::access::Access;
use crate::engine::{Footprint, Submission, Submitted};
use crate::telemetry::Context;

/// Largest body, in bytes, whose arguments are checked on the spot.
const QUICKLY_CHECKED: usize = 64 * 1024;

/// Returns `true` if there is nothing to be waited for before calls are on their way.
pub(super) fn is_at_once(submission: &Submission, request: &Footprint) -> bool {
    submission.session.is_none() && request.bytes <= QUICKLY_CHECKED
}

/// Submits the calls of a request. Arguments that take long to check are not checked where others wait.
pub(super) async fn submit(
    state: &AppState,
    access: &Access,
    mut submission: Box<Submission>,
    ids: Vec<Uuid>,
    request: Footprint,
) -> Result<Submitted, Problem> {
    if submission.session.is_some() {
        Box::pin(conversation::join(state, access, &mut submission)).await?;
    }
    if request.bytes <= QUICKLY_CHECKED {
        return Ok(state.engine.submit(access, submission, ids, request)?);
    }
    let (engine, access) = (state.engine.clone(), access.clone());
    let context = Context::current();
    let submitted = move || context.run(|| engine.submit(&access, submission, ids, request));
    let submitted = tokio::task::spawn_blocking(submitted).await;
    Ok(submitted.map_err(|_| Problem::internal())??)
}
