//! Bounds on the cost of a schema: size, nesting, nodes, and the expansion of its references.

use serde_json::Value;

use super::SchemaError;
use super::graph::{Graph, Node, NodeId, ROOT};

const MAX_BYTES: usize = 256 * 1024;
const MAX_LEVELS: usize = 64;
const MAX_NODES: usize = 10_000;
/// Maximum number of subschemas reachable from one subschema when every reference is expanded.
const MAX_EXPANSION: u64 = 10_000;
/// Maximum length of a chain of schemas that apply to one value; each costs stack, at every level of the arguments.
const MAX_CHAIN: u64 = 32;

/// Checks the size of the document.
///
/// # Errors
/// Returns a [`SchemaError`] if the document has too many bytes, levels or nodes.
pub(super) fn size(schema: &Value) -> Result<(), SchemaError> {
    let too_much = |what: String| {
        let message = format!("the schema {what}: make it smaller, for example by sharing definitions under \"$defs\"");
        Err(SchemaError { pointer: String::new(), message })
    };
    // Iterative, because the depth is not bounded yet.
    let (mut nodes, mut waiting) = (0, vec![(schema, 1)]);
    while let Some((value, level)) = waiting.pop() {
        nodes += 1;
        if nodes > MAX_NODES {
            return too_much(format!("has more than {MAX_NODES} nodes"));
        }
        if level > MAX_LEVELS && (value.is_object() || value.is_array()) {
            return too_much(format!("is nested deeper than {MAX_LEVELS} levels"));
        }
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(members) => waiting.extend(members.values().map(|member| (member, level + 1))),
            _ => {}
        }
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return too_much(format!("is {bytes} bytes long, the maximum is {} KiB", MAX_BYTES / 1024));
    }
    Ok(())
}

/// Bounds the work that the schema can cause. Returns the number of subschemas that the root consists of when every
/// reference is expanded.
///
/// # Errors
/// Returns a [`SchemaError`] if the schema applies itself to the same value, has a chain that is too long, or has
/// references that multiply beyond the bound. A recursive schema of nested values, such as a tree, is allowed.
pub(super) fn expansion(graph: &Graph) -> Result<u64, SchemaError> {
    let refuse = |id: NodeId, message: String| Err(SchemaError { pointer: graph.nodes[id].pointer.clone(), message });
    let in_place: Vec<Vec<NodeId>> = graph.nodes.iter().map(|node| node.in_place().collect()).collect();
    let order = match post_order(&in_place) {
        Ok(order) => order,
        Err(id) => {
            let message = "applies itself to the same value endlessly: refer to it from \"properties\" or \"items\", \
                           or remove the reference";
            return refuse(id, message.to_owned());
        }
    };
    let mut chain = vec![0_u64; graph.nodes.len()];
    for id in order {
        chain[id] = in_place[id].iter().map(|next| chain[*next]).max().unwrap_or(0) + 1;
        if chain[id] > MAX_CHAIN {
            return refuse(
                id,
                format!("more than {MAX_CHAIN} schemas apply to one value in a chain: shorten the chain"),
            );
        }
    }
    // References back into a cycle count once; all others count as often as they are expanded.
    let edges = |node: &Node| node.in_place().chain(node.below()).collect();
    let all: Vec<Vec<NodeId>> = graph.nodes.iter().map(edges).collect();
    let circle = circles(&all);
    let unfold = |id: NodeId| {
        let (here, below) = all[id].split_at(in_place[id].len());
        let below = below.iter().filter(|next| circle[**next] != circle[id]);
        here.iter().chain(below).copied().collect()
    };
    let unfolding: Vec<Vec<NodeId>> = (0..all.len()).map(unfold).collect();
    let Ok(order) = post_order(&unfolding) else {
        return refuse(ROOT, "applies itself to the same value endlessly".to_owned());
    };
    let mut total = vec![0_u64; graph.nodes.len()];
    for id in order {
        let back = all[id].len() - unfolding[id].len();
        total[id] = unfolding[id].iter().fold(1 + back as u64, |sum, next| sum.saturating_add(total[*next]));
        if total[id] > MAX_EXPANSION {
            let message = format!(
                "has more than {MAX_EXPANSION} subschemas when its references are expanded: refer to shared \
                 definitions less often"
            );
            return refuse(id, message);
        }
    }
    Ok(total[ROOT])
}

/// Returns the nodes in post-order (each after its successors), or a node on a cycle as the error.
fn post_order(edges: &[Vec<NodeId>]) -> Result<Vec<NodeId>, NodeId> {
    let mut order = Vec::with_capacity(edges.len());
    walk(edges, |_, finished| order.push(finished)).map(|()| order)
}

/// Walks the whole graph depth-first, without recursion, and calls `leave` for each node with the root of its tree.
/// Continues after a cycle, and then returns a node on a cycle as the error.
fn walk(edges: &[Vec<NodeId>], mut leave: impl FnMut(NodeId, NodeId)) -> Result<(), NodeId> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Left,
    }
    let mut state = vec![State::New; edges.len()];
    let mut circular = Ok(());
    for start in 0..edges.len() {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            if let Some(child) = edges[*node].get(*next).copied() {
                *next += 1;
                match state[child] {
                    State::New => {
                        state[child] = State::Open;
                        path.push((child, 0));
                    }
                    State::Open => circular = Err(child),
                    State::Left => {}
                }
            } else {
                state[*node] = State::Left;
                leave(start, *node);
                path.pop();
            }
        }
    }
    circular
}

/// Returns for each node the id of its strongly connected component (Kosaraju's algorithm).
fn circles(edges: &[Vec<NodeId>]) -> Vec<NodeId> {
    let mut order = Vec::with_capacity(edges.len());
    // Cycles are expected here.
    let _ = walk(edges, |_, node| order.push(node));
    let mut reversed = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for to in targets {
            reversed[*to].push(from);
        }
    }
    let mut circle = vec![usize::MAX; edges.len()];
    for start in order.into_iter().rev() {
        let mut waiting = vec![start];
        while let Some(node) = waiting.pop() {
            if circle[node] == usize::MAX {
                circle[node] = start;
                waiting.extend(&reversed[node]);
            }
        }
    }
    circle
}
