//! Budgets: limits on calls and cost within a rolling window (docs/reference/contract.md, section 16).

use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schemas::{Glob, SessionGlob, ToolName};
use super::{Outcome, Time};

/// Longest window: 366 days, in milliseconds.
pub const MAX_WINDOW_MS: u64 = 366 * 24 * 3600 * 1000;
/// Largest `max_calls`.
pub const MAX_CALLS: u64 = 1_000_000_000_000;
/// Largest cost of a call, and largest `max_cost`.
pub const MAX_COST: f64 = 1e9;

/// Costs are counted in billionths of the unit, because sums of fractions must be exact.
const NANOS: f64 = 1e9;
/// A window is divided into this many steps. Use leaves the window in whole steps.
const STEPS: u64 = 100;

/// Converts a cost to billionths.
#[must_use]
pub fn nanos_of(cost: f64) -> i64 {
    (cost.clamp(0.0, MAX_COST) * NANOS).round() as i64
}

/// Converts billionths to a cost.
#[must_use]
pub fn cost_of(nanos: i64) -> f64 {
    nanos as f64 / NANOS
}

/// The calls that a budget counts. An empty list matches all calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetMatch {
    /// Globs of tool names, for example `mail_*`. One of them must match.
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    pub tools: Vec<String>,
    /// Globs of session ids. One of them must match. Calls without a session do not match.
    #[schema(value_type = Vec<SessionGlob>, max_items = 256)]
    pub sessions: Vec<String>,
    /// Ids of API keys, or subjects of tokens. The caller must be one of them.
    #[schema(max_items = 256)]
    pub keys: Vec<String>,
}

/// A budget: the calls that it counts, and how many of them, or how much cost, a window may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetDefinition {
    /// The name.
    #[schema(value_type = ToolName)]
    pub name: String,
    /// The calls that it counts. By default all calls of the tenant.
    #[serde(default, rename = "match")]
    pub matches: BudgetMatch,
    /// The length of the rolling window, in milliseconds.
    #[schema(minimum = 1, maximum = 31_622_400_000_i64)]
    pub window_ms: u64,
    /// Maximum number of calls in the window. At least one maximum is required.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64, extensions(("x-together" = json!({"anyOf": [
        {"required": ["max_calls"], "properties": {"max_calls": {"type": "integer"}}},
        {"required": ["max_cost"], "properties": {"max_cost": {"type": "number"}}}]}))))]
    pub max_calls: Option<u64>,
    /// Maximum cost of the calls in the window, in the unit of the tools' `cost`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    pub max_cost: Option<f64>,
}

impl BudgetDefinition {
    /// Returns the maximums. `None` is no maximum.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let calls = self.max_calls.map(|calls| i64::try_from(calls).unwrap_or(i64::MAX));
        Limit { calls, cost: self.max_cost.map(nanos_of) }
    }

    /// Returns the steps in which use leaves the window, in microseconds.
    #[must_use]
    pub fn step(&self) -> i64 {
        i64::try_from(self.window_ms.saturating_mul(1000) / STEPS).unwrap_or(i64::MAX).max(1)
    }

    /// Returns the time before which use no longer counts.
    #[must_use]
    pub fn window_start(&self, now: Time) -> Time {
        let window = i64::try_from(self.window_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(window))
    }
}

/// A number of calls and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Number of calls.
    #[serde(rename = "n")]
    pub calls: i64,
    /// Cost in billionths of the unit.
    #[serde(rename = "c")]
    pub cost: i64,
}

impl Amount {
    /// Returns one call with this cost in billionths.
    #[must_use]
    pub fn of_call(cost: i64) -> Self {
        Self { calls: 1, cost }
    }

    /// Returns the same amount `count` times.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        Self { calls: self.calls.saturating_mul(count), cost: self.cost.saturating_mul(count) }
    }

    /// Returns `true` if nothing is left of the amount.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Returns the smaller number of calls and the smaller cost.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { calls: self.calls.min(other.calls), cost: self.cost.min(other.cost) }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { calls: self.calls.saturating_add(other.calls), cost: self.cost.saturating_add(other.cost) }
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { calls: self.calls.saturating_sub(other.calls), cost: self.cost.saturating_sub(other.cost) }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The maximums of a budget. `None` is no maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Maximum number of calls.
    pub calls: Option<i64>,
    /// Maximum cost in billionths of the unit.
    pub cost: Option<i64>,
}

impl Limit {
    /// Returns what is left when `taken` is in use. Without a maximum, everything is left.
    #[must_use]
    pub fn left(self, taken: Amount) -> Amount {
        let left = |limit: Option<i64>, taken: i64| limit.map_or(i64::MAX, |limit| limit.saturating_sub(taken));
        Amount { calls: left(self.calls, taken.calls), cost: left(self.cost, taken.cost) }
    }

    /// Returns `true` if the amount fits into what is left.
    #[must_use]
    pub fn fits(self, amount: Amount, left: Amount) -> bool {
        (self.calls.is_none() || amount.calls <= left.calls) && (self.cost.is_none() || amount.cost <= left.cost)
    }
}

/// A reservation of a call in one budget. The row of a running call contains it, so that another node can settle it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetHold {
    /// The budget.
    #[serde(rename = "b")]
    pub budget: Uuid,
    /// The allotment of the node that reserved it.
    #[serde(rename = "a")]
    pub allotment: Uuid,
    /// The reserved amount.
    #[serde(rename = "h")]
    pub amount: Amount,
    /// The steps in which use leaves the window, in microseconds.
    #[serde(rename = "s")]
    pub step: i64,
    /// What the ended call has used; `None` before its end.
    #[serde(skip)]
    pub used: Option<BudgetUse>,
}

/// The use of one budget by an ended call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    /// The used amount.
    pub amount: Amount,
    /// The part of the reserved amount that the node keeps for further calls.
    pub returned: Amount,
}

impl BudgetHold {
    /// Returns the time at which use that ends at `at` is counted: the end of its step, so that it never leaves the window
    /// too early.
    #[must_use]
    pub fn counted_at(&self, at: Time) -> Time {
        let step = self.step.max(1);
        Time(at.0.saturating_add(step - 1).div_euclid(step).saturating_mul(step))
    }
}

/// Returns the cost that a tool reports in the details of its outcome, in billionths.
#[must_use]
pub fn reported_cost(outcome: &Outcome) -> Option<i64> {
    let cost = outcome.details.get("cost")?.as_f64()?;
    (cost >= 0.0).then(|| nanos_of(cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_fractions_are_exact() {
        let tenth = nanos_of(0.1);
        assert_eq!(Amount::of_call(tenth).times(10), Amount { calls: 10, cost: nanos_of(1.0) });
        assert!((cost_of(tenth * 3) - 0.3).abs() < f64::EPSILON);
    }

    #[test]
    fn missing_maximum_leaves_everything() {
        let limit = Limit { calls: Some(2), cost: None };
        let left = limit.left(Amount { calls: 1, cost: 500 });
        assert!(limit.fits(Amount { calls: 1, cost: i64::MAX }, left));
        assert!(!limit.fits(Amount { calls: 2, cost: 0 }, left));
    }

    #[test]
    fn use_is_counted_at_the_end_of_its_step() {
        let hold =
            BudgetHold { budget: Uuid::nil(), allotment: Uuid::nil(), amount: Amount::default(), step: 10, used: None };
        assert_eq!([11, 20, 21].map(|at| hold.counted_at(Time(at)).0), [20, 20, 30]);
    }
}
