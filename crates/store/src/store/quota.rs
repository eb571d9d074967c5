//! Quotas: the maximum number of tools, groups, hooks, keys and sessions of a tenant.
//!
//! Resources whose changes update a version row are counted in the same transaction, after the insert. The version row
//! is the only lock, so the count is exact on any number of nodes. Sessions are created as part of calls and can be
//! numerous: they are counted periodically, more often the closer their number is to the limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::query::Query;
use super::{Store, StoreError};
use toolpost_core::domain::Tenant;
use toolpost_core::domain::tenant::{QuotaResource, TenantLimits};

/// Updates no row if the tenant $2 has more than $3 tools and the tool $1 is new. Otherwise it changes nothing.
pub(super) const TOOLS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM tools WHERE tenant = $2) <= $3 \
    OR COALESCE((SELECT revision FROM tools WHERE tenant = $2 AND name = $1), 1) > 1";
/// The check for groups.
pub(super) const GROUPS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM tool_groups WHERE tenant = $1) <= $2";
/// The check for hooks.
pub(super) const HOOKS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM hooks WHERE tenant = $1) <= $2";
/// The check for policies.
pub(super) const POLICIES: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM policies WHERE tenant = $1) <= $2";
/// The check for budgets.
pub(super) const BUDGETS: &str = "UPDATE tools_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM budgets WHERE tenant = $1) <= $2";
/// The check for keys.
pub(super) const KEYS: &str = "UPDATE keys_clock SET version = version WHERE \
    (SELECT COUNT(*) FROM api_keys WHERE tenant = $1 AND revoked_at IS NULL) <= $2";

/// One part in this many of the remaining sessions may be used before they are counted again: other nodes create some,
/// too.
const SHARE: u32 = 8;
/// Minimum time between counts while the limit is reached.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of tenants with a cached count; beyond it all counts are discarded.
const MAX_TENANTS: usize = 10_000;

/// The limits, and the cached counts of sessions.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    limits: TenantLimits,
    sessions: Mutex<HashMap<Tenant, SessionCount>>,
}

/// The time of a tenant's last count, and the number of sessions that may be created before the next; 0 if the limit
/// was reached.
#[derive(Debug)]
struct SessionCount {
    at: Instant,
    left: u32,
}

impl Quotas {
    pub fn new(limits: TenantLimits) -> Self {
        Self { limits, sessions: Mutex::default() }
    }

    /// Runs one of the checks above.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota is exceeded, and another [`StoreError`] if the database fails.
    pub async fn check(&self, check: Query<'_>, tenant: &Tenant, what: QuotaResource) -> Result<(), StoreError> {
        let rows = check.bind(tenant).bind(i64::from(self.limits.max_of(what))).execute().await?;
        if rows > 0 { Ok(()) } else { Err(self.too_many(what)) }
    }

    fn too_many(&self, what: QuotaResource) -> StoreError {
        StoreError::TooMany { what, max: self.limits.max_of(what) }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Tenant, SessionCount>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves one session of the cached count. Returns `None` if the sessions must be counted first.
    fn try_reserve(&self, tenant: &Tenant) -> Option<bool> {
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
        // While the limit is reached, not every request counts again.
        (counted.at.elapsed() < RECOUNT_INTERVAL).then_some(false)
    }

    /// Caches a count and reserves one session. Returns `false` if the limit is reached.
    fn record_count(&self, tenant: &Tenant, count: u64) -> bool {
        let free = u64::from(self.limits.max_sessions).saturating_sub(count);
        let share = u32::try_from(free).unwrap_or(u32::MAX).div_ceil(SHARE);
        let mut sessions = self.sessions();
        if sessions.len() >= MAX_TENANTS {
            sessions.clear();
        }
        match share {
            0 => drop(sessions.insert(tenant.clone(), SessionCount { at: Instant::now(), left: 0 })),
            // One session is reserved now. As none is left, the next request counts again immediately.
            1 => drop(sessions.remove(tenant)),
            more => drop(sessions.insert(tenant.clone(), SessionCount { at: Instant::now(), left: more - 1 })),
        }
        share > 0
    }
}

impl Store {
    /// Reserves one more session.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota is reached, and another [`StoreError`] if the database fails.
    pub(super) async fn reserve_session(&self) -> Result<(), StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM sessions WHERE tenant = $1";
        let quotas = &self.stores.quotas;
        let is_below_limit = match quotas.try_reserve(&self.tenant) {
            Some(is_below_limit) => is_below_limit,
            None => {
                let (count,): (i64,) = self.read(SQL).one().await?;
                quotas.record_count(&self.tenant, count.unsigned_abs())
            }
        };
        if is_below_limit { Ok(()) } else { Err(quotas.too_many(QuotaResource::Session)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_are_counted_more_often_near_the_limit() {
        let quotas = Quotas::new(TenantLimits { max_sessions: 100, ..TenantLimits::default() });
        let tenant = Tenant::default();
        let (mut made, mut looks) = (0, 0);
        loop {
            let is_below_limit = quotas.try_reserve(&tenant).unwrap_or_else(|| {
                looks += 1;
                quotas.record_count(&tenant, made)
            });
            if !is_below_limit {
                break;
            }
            made += 1;
        }
        assert_eq!(made, 100);
        assert!((10..60).contains(&looks), "{looks}");
        assert_eq!(quotas.try_reserve(&tenant), Some(false), "it was counted just now");
        tokio::time::advance(RECOUNT_INTERVAL).await;
        assert_eq!(quotas.try_reserve(&tenant), None);
        assert!(quotas.record_count(&tenant, 99) && quotas.try_reserve(&tenant).is_none());
    }

    #[test]
    fn unlimited_sessions_are_not_counted() {
        assert_eq!(Quotas::default().try_reserve(&Tenant::default()), Some(true));
    }
}
