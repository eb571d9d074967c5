//! Whether one subschema takes a value: what coercion and defaults ask while they try things out. The validator of the
//! whole schema has the last word, so keywords that are rare below the root may be left to it.

use serde_json::Value;

use super::graph::{Graph, NodeId};

/// Work that may still be done; a hostile schema and value could ask for any amount.
pub(super) struct Budget(u32);

impl Budget {
    pub(super) fn new(steps: u32) -> Self {
        Self(steps)
    }

    /// Takes one step, if there is one left.
    pub(super) fn step(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl Graph {
    /// Whether the subschema takes the value; `false` when the budget is spent.
    pub(super) fn accepts(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        if !budget.step() || !self.asserts(id, value) {
            return false;
        }
        let node = &self.nodes[id];
        node.all.iter().all(|all| self.accepts(*all, value, budget))
            && self.accepts_any(id, value, budget)
            && self.accepts_one(id, value, budget)
            && node.not.is_none_or(|not| !self.accepts(not, value, budget))
            && self.conditional(id, value, budget).is_none_or(|then| self.accepts(then, value, budget))
            && self.accepts_parts(id, value, budget)
            && !budget.is_spent()
    }

    pub(super) fn accepts_any(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let any = &self.nodes[id].any;
        any.is_empty() || any.iter().any(|branch| self.accepts(*branch, value, budget))
    }

    pub(super) fn accepts_one(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        let one = &self.nodes[id].one;
        one.is_empty() || one.iter().filter(|branch| self.accepts(**branch, value, budget)).take(2).count() == 1
    }

    /// `then` or `else`, as `if` decides.
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

    /// Whether the validator can look at every subschema that may concern the value within the budget.
    pub(super) fn affordable(&self, id: NodeId, value: &Value, budget: &mut Budget) -> bool {
        if !budget.step() {
            return false;
        }
        let node = &self.nodes[id];
        if !node.in_place().all(|next| self.affordable(next, value, budget)) {
            return false;
        }
        match value {
            Value::Object(object) => object.iter().all(|(name, member)| {
                let below = self.of_property(id, name).into_iter().chain(node.part_of_value.iter().copied());
                budget.step() && below.into_iter().all(|id| self.affordable(id, member, budget))
            }),
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                let below = self.of_element(id, index).into_iter().chain(node.part_of_value.iter().copied());
                below.into_iter().all(|id| self.affordable(id, item, budget))
            }),
            _ => true,
        }
    }
}
