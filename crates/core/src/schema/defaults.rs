//! Schema defaults: inserted where a property is absent, unless they violate their own schema.

use serde_json::{Map, Value};

use super::accept::Budget;
use super::graph::{Graph, NodeId, ROOT};

/// Maximum bytes that defaults may add to one call's arguments; a default in the items of an array is added per item.
const MAX_ADDED: usize = 1 << 20;
/// Maximum number of subschemas visited while defaults are checked at registration, and while a small value is filled.
const STEPS: u32 = 1_000_000;

/// Collects the defaults to apply; skips invalid and endless defaults.
pub(super) fn prepare(graph: &mut Graph) {
    let mut budget = Budget::new(STEPS);
    for id in 0..graph.nodes.len() {
        let names: Vec<(String, NodeId)> =
            graph.nodes[id].properties.iter().map(|(name, below)| (name.clone(), *below)).collect();
        for (name, below) in names {
            if let Some(default) = default_of(graph, below).cloned()
                && graph.accepts(below, &default, &mut budget)
            {
                graph.nodes[id].defaults.push((name, default));
            }
        }
    }
    mark(graph);
    drop_endless(graph);
    mark(graph);
}

/// Returns the default of a schema, or else the first default of its `$ref` and `allOf` schemas.
fn default_of(graph: &Graph, id: NodeId) -> Option<&Value> {
    let node = &graph.nodes[id];
    node.default.as_ref().or_else(|| node.all.iter().find_map(|all| default_of(graph, *all)))
}

/// Marks the nodes from which `fill` can reach a default.
fn mark(graph: &mut Graph) {
    for node in &mut graph.nodes {
        node.fills = !node.defaults.is_empty();
    }
    let mut leading_here: Vec<Vec<NodeId>> = vec![Vec::new(); graph.nodes.len()];
    for (id, node) in graph.nodes.iter().enumerate() {
        let patterns = node.patterns.iter().map(|(_, id)| *id);
        let below = node.properties.values().copied().chain(patterns).chain(node.additional);
        for next in below.chain(node.prefix.iter().copied()).chain(node.items).chain(node.all.iter().copied()) {
            leading_here[next].push(id);
        }
    }
    let mut waiting: Vec<NodeId> = (0..graph.nodes.len()).filter(|id| graph.nodes[*id].fills).collect();
    while let Some(id) = waiting.pop() {
        for before in &leading_here[id] {
            if !graph.nodes[*before].fills {
                graph.nodes[*before].fills = true;
                waiting.push(*before);
            }
        }
    }
}

/// Removes defaults that contain themselves through other defaults, because they would grow forever.
fn drop_endless(graph: &mut Graph) {
    let mut budget = Budget::new(STEPS);
    for id in 0..graph.nodes.len() {
        for index in (0..graph.nodes[id].defaults.len()).rev() {
            let (name, default) = &graph.nodes[id].defaults[index];
            let mut filler = DefaultFiller { graph, bytes_left: MAX_ADDED, budget, inserted: 0 };
            let ends = graph.of_property(id, name).into_iter().all(|below| filler.value(below, default).is_ok());
            budget = filler.budget;
            if !ends {
                graph.nodes[id].defaults.remove(index);
            }
        }
    }
}

/// Returns the instance with its defaults, or `None` if it has none to add, or too many.
pub(super) fn fill(graph: &Graph, instance: &Value) -> Option<Value> {
    if !graph.nodes[ROOT].fills {
        return None;
    }
    let mut filler =
        DefaultFiller { graph, bytes_left: MAX_ADDED, budget: Budget::for_value(STEPS, instance), inserted: 0 };
    let mut filled: Option<Value> = None;
    // One part of an `allOf` may fill what another part has added.
    for _ in 0..8 {
        match filler.value(ROOT, filled.as_ref().unwrap_or(instance)) {
            Ok(Some(more)) => filled = Some(more),
            Ok(None) => return filled,
            Err(BudgetExceeded) => return None,
        }
    }
    None
}

/// The error if the defaults exceed a bound.
struct BudgetExceeded;

struct DefaultFiller<'a> {
    graph: &'a Graph,
    bytes_left: usize,
    budget: Budget,
    inserted: usize,
}

/// Maximum nesting of defaults within defaults; deeper ones are considered endless.
const MAX_INSERTED: usize = 32;

impl DefaultFiller<'_> {
    fn value(&mut self, id: NodeId, value: &Value) -> Result<Option<Value>, BudgetExceeded> {
        let node = &self.graph.nodes[id];
        if !node.fills {
            return Ok(None);
        }
        if !self.budget.step() {
            return Err(BudgetExceeded);
        }
        let mut filled = match value {
            Value::Object(object) => self.object(id, object)?.map(Value::Object),
            Value::Array(items) => self.array(id, items)?.map(Value::Array),
            _ => return Ok(None),
        };
        for all in &node.all {
            filled = self.value(*all, filled.as_ref().unwrap_or(value))?.or(filled);
        }
        Ok(filled)
    }

    fn object(
        &mut self,
        id: NodeId,
        object: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, BudgetExceeded> {
        let mut filled: Option<Map<String, Value>> = None;
        for (name, given) in object {
            let mut better: Option<Value> = None;
            for below in self.graph.of_property(id, name) {
                better = self.value(below, better.as_ref().unwrap_or(given))?.or(better);
            }
            if let Some(better) = better {
                filled.get_or_insert_with(|| object.clone()).insert(name.clone(), better);
            }
        }
        for (name, default) in &self.graph.nodes[id].defaults {
            if object.contains_key(name) {
                continue;
            }
            self.bytes_left = self.bytes_left.checked_sub(size(default)).ok_or(BudgetExceeded)?;
            self.inserted += 1;
            if self.inserted > MAX_INSERTED {
                return Err(BudgetExceeded);
            }
            let mut value = default.clone();
            for below in self.graph.of_property(id, name) {
                value = self.value(below, &value)?.unwrap_or(value);
            }
            self.inserted -= 1;
            filled.get_or_insert_with(|| object.clone()).insert(name.clone(), value);
        }
        Ok(filled)
    }

    fn array(&mut self, id: NodeId, items: &[Value]) -> Result<Option<Vec<Value>>, BudgetExceeded> {
        let mut filled: Option<Vec<Value>> = None;
        for (index, given) in items.iter().enumerate() {
            let Some(below) = self.graph.of_element(id, index) else { break };
            if let Some(better) = self.value(below, given)? {
                filled.get_or_insert_with(|| items.to_vec())[index] = better;
            }
        }
        Ok(filled)
    }
}

/// Estimates the length of a value as JSON, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 8,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 8,
        Value::Object(members) => members.iter().map(|(name, member)| name.len() + size(member)).sum::<usize>() + 8,
        _ => 8,
    }
}
