//! The session of a request: read, or made on first use, before its calls are taken.

use std::sync::Arc;

use super::AppState;
use super::problem::Problem;
use crate::access::Access;
use crate::domain::{Session, SessionState};
use crate::engine::Submission;

/// How often a session is looked up that others make and forget at the same moment.
const TRIES: usize = 5;
/// After which part of its idle time a session is noted as used: not every call writes.
const PARTS: u64 = 4;

/// Lets the calls of a request follow its session, which is made if there is none. One that has ended goes on.
pub(super) async fn join(state: &AppState, access: &Access, submission: &mut Submission) -> Result<(), Problem> {
    let Some(id) = submission.session.clone() else { return Ok(()) };
    let session = found(state, access, &id).await?;
    if submission.callback_url.is_none() {
        submission.callback_url.clone_from(&session.callback_url);
    }
    submission.conversation = Some(Arc::new(session));
    Ok(())
}

async fn found(state: &AppState, access: &Access, id: &Arc<str>) -> Result<Session, Problem> {
    for _ in 0..TRIES {
        let now = state.clock.now();
        let Some(mut session) = access.store().session(id).await? else {
            // Whoever else makes it at this moment makes the same.
            access.store().make_session(&Session::new(id.clone(), now)).await?;
            continue;
        };
        let idle_ms = state.config.sessions.idle_ms;
        let is_there = if session.state != SessionState::Active {
            let is_resumed = access.store().resume_session(id, now).await?;
            (session.state, session.completion) = (SessionState::Active, None);
            is_resumed
        } else if idle_ms > 0 && now.millis_since(session.updated_at) >= idle_ms / PARTS {
            // It is not forgotten under this call.
            access.store().touch_session(id, now).await?
        } else {
            true
        };
        if is_there {
            return Ok(session);
        }
    }
    Err(Problem::overloaded())
}
