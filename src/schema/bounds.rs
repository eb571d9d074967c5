//! What a schema may cost: size, nesting, nodes, and how often its references multiply.

use serde_json::Value;

use super::SchemaError;
use super::graph::{Graph, NodeId, ROOT};

const MAX_BYTES: usize = 256 * 1024;
const MAX_LEVELS: usize = 64;
const MAX_NODES: usize = 10_000;
/// Subschemas to evaluate once every reference is written out, at one value and over the whole schema.
const MAX_EXPANSION: u64 = 10_000;
/// Schemas that apply to one value through one another; each costs stack, at every level of the arguments.
const MAX_CHAIN: u64 = 32;

/// Checks the size of the document.
///
/// # Errors
/// More bytes, levels or nodes than are taken.
pub(super) fn size(schema: &Value) -> Result<(), SchemaError> {
    let too_much = |what: String| {
        let message = format!("the schema {what}: make it smaller, for example by sharing definitions under \"$defs\"");
        Err(SchemaError { pointer: String::new(), message })
    };
    // By hand rather than by recursion: the depth is not known yet.
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
        return too_much(format!("is {bytes} bytes long, {} KiB are allowed", MAX_BYTES / 1024));
    }
    Ok(())
}

/// Bounds the work that the schema can ask for.
///
/// # Errors
/// A schema that applies itself to the same value without end, chains that are too long, and references that multiply
/// beyond the bound. A schema that refers to itself below (a tree) is fine.
pub(super) fn expansion(graph: &Graph) -> Result<(), SchemaError> {
    let refuse = |id: NodeId, message: String| Err(SchemaError { pointer: graph.nodes[id].pointer.clone(), message });
    let in_place: Vec<Vec<NodeId>> = graph.nodes.iter().map(|node| node.in_place().collect()).collect();
    let order = match post_order(&in_place) {
        Ok(order) => order,
        Err(id) => {
            let message = "applies itself to the same value without end: refer to it from \"properties\" or \"items\", \
                           or take the reference out";
            return refuse(id, message.to_owned());
        }
    };
    let mut chain = vec![0_u64; graph.nodes.len()];
    for id in order {
        chain[id] = in_place[id].iter().map(|next| chain[*next]).max().unwrap_or(0) + 1;
        if chain[id] > MAX_CHAIN {
            return refuse(
                id,
                format!("more than {MAX_CHAIN} schemas apply to one value through one another: shorten the chain"),
            );
        }
    }
    // References back into a circle below count once; all others count as often as they are written out.
    let all: Vec<Vec<NodeId>> = graph
        .nodes
        .iter()
        .zip(&in_place)
        .map(|(node, here)| here.iter().copied().chain(node.below()).collect())
        .collect();
    let circle = circles(&all);
    let unfolding: Vec<Vec<NodeId>> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(id, node)| {
            let below = node.below().filter(|next| circle[*next] != circle[id]);
            in_place[id].iter().copied().chain(below).collect()
        })
        .collect();
    let Ok(order) = post_order(&unfolding) else {
        return refuse(ROOT, "applies itself to the same value without end".to_owned());
    };
    let mut total = vec![0_u64; graph.nodes.len()];
    for id in order {
        let back = all[id].len() - unfolding[id].len();
        total[id] = unfolding[id].iter().fold(1 + back as u64, |sum, next| sum.saturating_add(total[*next]));
        if total[id] > MAX_EXPANSION {
            let message = format!(
                "grows beyond {MAX_EXPANSION} subschemas once its references are written out: refer to shared \
                 definitions less often"
            );
            return refuse(id, message);
        }
    }
    Ok(())
}

/// The nodes, each after all that it leads to; or one that leads to itself.
fn post_order(edges: &[Vec<NodeId>]) -> Result<Vec<NodeId>, NodeId> {
    let mut order = Vec::with_capacity(edges.len());
    walk(edges, |_, finished| order.push(finished)).map(|()| order)
}

/// Depth first over the whole graph, without recursion; reports each node when it is left, with the start of its tree.
/// Goes on after a circle, and then answers with a node on one.
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

/// For each node the name of the circle (strongly connected component) that it is on; Kosaraju's algorithm.
fn circles(edges: &[Vec<NodeId>]) -> Vec<NodeId> {
    let mut order = Vec::with_capacity(edges.len());
    // Circles are what is looked for here, not a failure.
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
