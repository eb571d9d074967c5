//! How much each tenant may have, and whether there is room for one more.
//!
//! What is written under a clock is counted in its own transaction, after it was written: the clock's row is the one lock, so
//! the count is exact, on any number of nodes. Sessions are made on the way of calls, and may be very many: they are counted
//! from time to time, more often the nearer the bound is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Store, StoreError, db};
use crate::domain::Tenant;
use crate::domain::tenant::{QuotaResource, TenantLimits};

/// Changes nothing, and no row at all if the tenant $1 has more than $2 tools, when $3 is new among them.
pub(super) const TOOLS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM tools WHERE tenant = $1) <= $2 \
    OR COALESCE((SELECT revision FROM tools WHERE tenant = $1 AND name = $3), 1) > 1";
/// The same of groups.
pub(super) const GROUPS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM tool_groups WHERE tenant = $1) <= $2";
/// The same of hooks.
pub(super) const HOOKS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM hooks WHERE tenant = $1) <= $2";
/// The same of keys.
pub(super) const KEYS: &str = "UPDATE keys_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM api_keys WHERE tenant = $1 AND revoked_at IS NULL) <= $2";

/// Which part of what is left may be used before sessions are counted again: other nodes make some, too.
const PART: u32 = 8;
/// How soon sessions of which there were too many are counted again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Tenants whose counts are kept; beyond that all are counted again.
const MOST_TENANTS: usize = 10_000;

/// The bounds, and what is known of the sessions that there are.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    limits: TenantLimits,
    sessions: Mutex<HashMap<Tenant, SessionCount>>,
}

/// When a tenant's sessions were counted, and how many more may be made before that is done again; none: there is no room.
#[derive(Debug)]
struct SessionCount {
    at: Instant,
    left: u32,
}

impl Quotas {
    pub fn new(limits: TenantLimits) -> Self {
        Self { limits, sessions: Mutex::default() }
    }

    /// Most of these, as it is bound to a statement.
    pub fn limit(&self, what: QuotaResource) -> i64 {
        i64::from(self.limits.most(what))
    }

    /// What is told if there are too many.
    pub fn too_many(&self, what: QuotaResource) -> StoreError {
        StoreError::TooMany { what, most: self.limits.most(what) }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Tenant, SessionCount>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more session may be made; `None` where that has to be counted first.
    fn take_session(&self, tenant: &Tenant) -> Option<bool> {
        if self.limits.max_sessions == u32::MAX {
            return Some(true);
        }
        let mut sessions = self.sessions();
        let counted = sessions.get_mut(tenant)?;
        if counted.left > 0 {
            counted.left -= 1;
            if counted.left == 0 {
                sessions.remove(tenant);
            }
            return Some(true);
        }
        // Where there was no room at all, not every request that finds none counts again.
        (counted.at.elapsed() < LOOK_AGAIN).then_some(false)
    }

    /// Whether there is room for one more beside so many; the next ones are taken without a look.
    fn note_sessions(&self, tenant: &Tenant, count: u64) -> bool {
        let free = u64::from(self.limits.max_sessions).saturating_sub(count);
        let share = u32::try_from(free).unwrap_or(u32::MAX).div_ceil(PART);
        let mut sessions = self.sessions();
        if sessions.len() >= MOST_TENANTS {
            sessions.clear();
        }
        match share {
            0 => drop(sessions.insert(tenant.clone(), SessionCount { at: Instant::now(), left: 0 })),
            // One is taken now. With none left the next one counts again, at once.
            1 => drop(sessions.remove(tenant)),
            more => drop(sessions.insert(tenant.clone(), SessionCount { at: Instant::now(), left: more - 1 })),
        }
        share > 0
    }
}

impl Store {
    /// Takes room for one more session.
    ///
    /// # Errors
    /// If there is none, or the database fails.
    pub(super) async fn reserve_session(&self) -> Result<(), StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM sessions WHERE tenant = $1";
        let room = &self.stores.room;
        let is_room = match room.take_session(&self.tenant) {
            Some(is_room) => is_room,
            None => {
                let (count,): (i64,) = db::on_reader!(&self.db, pool =>
                    sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_one(pool).await)?;
                room.note_sessions(&self.tenant, count.unsigned_abs())
            }
        };
        if is_room { Ok(()) } else { Err(room.too_many(QuotaResource::Session)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_are_counted_more_often_the_nearer_the_bound_is() {
        let room = Quotas::new(TenantLimits { max_sessions: 100, ..TenantLimits::default() });
        let tenant = Tenant::default();
        let (mut made, mut looks) = (0, 0);
        loop {
            let is_room = room.take_session(&tenant).unwrap_or_else(|| {
                looks += 1;
                room.note_sessions(&tenant, made)
            });
            if !is_room {
                break;
            }
            made += 1;
        }
        assert_eq!(made, 100);
        assert!((10..60).contains(&looks), "{looks}");
        assert_eq!(room.take_session(&tenant), Some(false), "it was counted just now");
        tokio::time::advance(LOOK_AGAIN).await;
        assert_eq!(room.take_session(&tenant), None);
        assert!(room.note_sessions(&tenant, 99) && room.take_session(&tenant).is_none());
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        assert_eq!(Quotas::default().take_session(&Tenant::default()), Some(true));
    }
}
