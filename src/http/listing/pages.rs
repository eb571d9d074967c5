//! Pages of the calls that a caller may see.

use uuid::Uuid;

use crate::access::Access;
use crate::domain::{AllowList, Call};
use crate::http::problem::Problem;
use crate::store::calls::CallFilter;

/// Number of calls whose tools one query returns, for callers that may see some tools only.
const SCAN_SIZE: u32 = 1000;
/// Maximum number of such queries per page.
const MAX_SCANS: usize = 10;

/// Returns a page of calls that match the filter, newest first, and the cursor of the next page.
pub(super) async fn page(access: &Access, filter: CallFilter) -> Result<(Vec<Call>, Option<Uuid>), Problem> {
    if let Some(allowed) = access.allowed() {
        return filtered_page(access, allowed, filter).await;
    }
    let limit = filter.limit;
    // One more call shows whether there is a next page.
    let (mut calls, is_cut) = access.store().calls(&CallFilter { limit: limit + 1, ..filter }).await?;
    let has_more = is_cut || calls.len() > limit as usize;
    calls.truncate(limit as usize);
    let next = calls.last().filter(|_| has_more).map(|call| call.id);
    Ok((calls, next))
}

/// Returns a page for a caller with an allow-list. Databases cannot evaluate its globs, so the calls' tool names are
/// queried first and filtered here.
async fn filtered_page(
    access: &Access,
    allowed: &AllowList,
    filter: CallFilter,
) -> Result<(Vec<Call>, Option<Uuid>), Problem> {
    if filter.name.as_deref().is_some_and(|name| !allowed.has(name)) {
        return Ok((Vec::new(), None));
    }
    let limit = filter.limit as usize;
    let mut filter = CallFilter { limit: SCAN_SIZE, ..filter };
    let (mut found, mut next) = (Vec::new(), None);
    for _ in 0..MAX_SCANS {
        let scanned = access.store().call_tools(&filter).await?;
        next = scanned.last().map(|(id, _)| *id).filter(|_| scanned.len() == SCAN_SIZE as usize);
        found.extend(scanned.into_iter().filter(|(_, tool)| allowed.has(tool)).map(|(id, _)| id));
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().copied();
        }
        if found.len() == limit || next.is_none() {
            break;
        }
        filter.before = next;
    }
    let fitting = access.store().fitting_calls(found.iter().map(|id| vec![*id])).await?;
    if fitting < found.len() {
        found.truncate(fitting);
        next = found.last().copied();
    }
    let mut calls = access.store().calls_in_order(&found).await?;
    // A call's tool can become known only after the call was recorded.
    calls.retain(|call| allowed.has(&call.name));
    Ok((calls, next))
}
