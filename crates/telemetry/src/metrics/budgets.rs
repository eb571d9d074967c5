//! Gauges of budgets.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Metrics;

/// Maximum number of budgets with gauges of their own; further ones have none.
const MAX_BUDGETS: usize = 1000;

/// The tenant, the name and the unit of a budget.
type Labels = (String, String, &'static str);

/// The labels that were used since the start.
#[derive(Debug, Default)]
pub(super) struct BudgetLabels(Mutex<BTreeSet<Labels>>);

/// The use of one maximum of a budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetGauges {
    /// The tenant.
    pub tenant: String,
    /// The name.
    pub budget: String,
    /// `calls` or `cost`.
    pub unit: &'static str,
    /// What ended calls have used, what calls have reserved, and the maximum.
    pub values: [f64; 3],
}

impl Metrics {
    /// Sets the gauges of all budgets. Those of deleted budgets become 0.
    pub fn set_budgets(&self, budgets: &[BudgetGauges]) {
        const NAMES: [&str; 3] = ["toolpost_budget_used", "toolpost_budget_reserved", "toolpost_budget_limit"];
        let mut known = self.0.budgets.0.lock().unwrap_or_else(PoisonError::into_inner);
        for BudgetGauges { tenant, budget, unit, .. } in budgets {
            if known.len() < MAX_BUDGETS {
                known.insert((tenant.clone(), budget.clone(), unit));
            }
        }
        for (tenant, budget, unit) in &*known {
            let found = budgets.iter().find(|one| one.tenant == *tenant && one.budget == *budget && one.unit == *unit);
            let values = found.map_or([0.0; 3], |one| one.values);
            for (name, value) in NAMES.into_iter().zip(values) {
                self.set(name, &[("tenant", tenant), ("budget", budget), ("unit", unit)], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_budget_has_gauges_of_zero() {
        let metrics = Metrics::default();
        let one = BudgetGauges { tenant: "default".into(), budget: "b".into(), unit: "calls", values: [1.0, 2.0, 3.0] };
        metrics.set_budgets(&[one]);
        let line =
            |value: &str| format!(r#"toolpost_budget_limit{{tenant="default",budget="b",unit="calls"}} {value}"#);
        assert!(metrics.render().contains(&line("3")), "{}", metrics.render());
        metrics.set_budgets(&[]);
        assert!(metrics.render().contains(&line("0")));
    }
}
