//! Bounded checks of a value against one subschema, for coercion and defaults. The result is provisional: rare keywords
//! are checked only by the validator of the whole schema.

use serde_json::Value;

use super::graph::{Graph, NodeId};

/// The remaining work of one check. Without it, a hostile schema and value could cause any amount of work.
pub(super) struct Budget {
    steps: u32,
    depth: u32,
}

/// Maximum depth of nested schemas; a stack of 2 MB has room for twice as many.
const MAX_DEPTH: u32 = 1_500;

/// Steps for each value: more than the number of schemas that usually apply to one value.
const STEPS_PER_VALUE: u32 = 20;

impl Budget {
    pub(super) fn new(steps: u32) -> Self {
        Self { steps, depth: 0 }
    }

    /// Creates a budget of `steps`, plus steps in proportion to the size of the value.
    pub(super) fn for_value(steps: u32, value: &Value) -> Self {
        fn count(value: &Value) -> u32 {
            match value {
                Value::Array(items) => items.iter().map(count).fold(1, u32::saturating_add),
                Value::Object(members) => members.values().map(count).fold(1, u32::saturating_add),
                _ => 1,
            }
        }
        Self::new(count(value).saturating_mul(STEPS_PER_VALUE).saturating_add(steps))
    }

    /// Consumes one step. Returns `false` if the budget is spent.
    pub(super) fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    /// Consumes one step and enters a nested schema. Returns `false` if the budget is spent or the depth limit is
    /// reached.
    pub(super) fn enter(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            self.steps = 0;
        }
        self.depth += 1;
        self.step()
    }

    /// Leaves a nested schema; follows each [`enter`](Self::enter), whether it returned `true` or `false`.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn is_spent(&self) -> bool {
        self.steps == 0
    }
}

impl Graph {
    /// Returns `true` if the subschema accepts the value; `false` if the budget is spent.
    pub(super) fn accepts(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let accepted = budget.enter() && self.asserts(id, value) && self.applies(id, value, budget);
        budget.leave();
        accepted && !budget.is_spent()
    }

    /// Returns `true` if the subschemas that the node applies accept the value.
    fn applies(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let node = &self.nodes[id];
        node.all.iter().all(|all| self.accepts(*all, value, budget))
            && self.accepts_any(id, value, budget)
            && self.accepts_one(id, value, budget)
            && node.not.is_none_or(|not| !self.accepts(not, value, budget))
            && self.conditional(id, value, budget).is_none_or(|then| self.accepts(then, value, budget))
            && self.accepts_parts(id, value, budget)
    }

    pub(super) fn accepts_any(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let any = &self.nodes[id].any;
        any.is_empty() || any.iter().any(|branch| self.accepts(*branch, value, budget))
    }

    pub(super) fn accepts_one(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let one = &self.nodes[id].one;
        one.is_empty() || one.iter().filter(|branch| self.accepts(**branch, value, budget)).take(2).count() == 1
    }

    /// Returns `then` or `else`, depending on `if`.
    pub(super) fn conditional(&self, id: NodeId, value: &Value, budget: &mut Budget) -> Option<NodeId> {
        let (when, then, other) = self.nodes[id].condition?;
        if self.accepts(when, value, budget) { then } else { other }
    }

    fn accepts_parts(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let node = &self.nodes[id];
        match value {
            Value::Object(object) => {
                let dependent = node.dependent.iter().filter(|(name, _)| object.contains_key(name));
                let below = !node.properties.is_empty() || node.additional.is_some() || !node.patterns.is_empty();
                dependent.map(|(_, id)| id).all(|id| self.accepts(*id, value, budget))
                    && (!below
                        || object.iter().all(|(name, member)| {
                            self.of_property(id, name).into_iter().all(|id| self.accepts(id, member, budget))
                        }))
            }
            Value::Array(items) if node.items.is_some() || !node.prefix.is_empty() => {
                let each = |(index, item)| self.of_element(id, index).is_none_or(|id| self.accepts(id, item, budget));
                items.iter().enumerate().all(each)
            }
            _ => true,
        }
    }

    /// Returns `true` if validating the value visits a bounded number of subschemas: within the budget, and at most
    /// `depth_left` schemas deep.
    pub(super) fn affordable(&self, id: NodeId, value: &Value, budget: &mut Budget, depth_left: usize) -> bool {
        let (true, Some(depth_left)) = (budget.step(), depth_left.checked_sub(1)) else { return false };
        let node = &self.nodes[id];
        if !node.in_place().all(|next| self.affordable(next, value, budget, depth_left)) {
            return false;
        }
        match value {
            Value::Object(object) => object.iter().all(|(name, member)| {
                let below = self.of_property(id, name).into_iter().chain(node.part_of_value.iter().copied());
                budget.step() && below.into_iter().all(|id| self.affordable(id, member, budget, depth_left))
            }),
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                let below = self.of_element(id, index).into_iter().chain(node.part_of_value.iter().copied());
                below.into_iter().all(|id| self.affordable(id, item, budget, depth_left))
            }),
            _ => true,
        }
    }
}
