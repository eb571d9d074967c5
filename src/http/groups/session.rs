//! What a request about groups names: a session, and groups.

use std::sync::Arc;

use crate::access::Access;
use crate::domain::{Group, Groups, Session, json};
use crate::http::problem::Problem;

/// The session that a request names, if it does.
pub(in crate::http) async fn find_session(access: &Access, id: Option<&str>) -> Result<Option<Session>, Problem> {
    let Some(id) = id else { return Ok(None) };
    // Postgres refuses U+0000, and no session has it.
    let found = if id.contains('\0') { None } else { access.store().session(id).await? };
    found.map(Some).ok_or_else(|| no_such_session(id))
}

/// 404 for a session.
pub(super) fn no_such_session(id: &str) -> Problem {
    Problem::not_found(format!("there is no session \"{}\"", json::shorten(id, 128)))
}

/// The group of this name, or 404.
pub(in crate::http) fn known_group<'a>(groups: &'a Groups, name: &str) -> Result<&'a Arc<Group>, Problem> {
    groups.get(name).ok_or_else(|| Problem::not_found(format!("there is no group \"{}\"", json::shorten(name, 128))))
}
