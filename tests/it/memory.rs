//! The documented memory is sufficient for any request.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolpost::domain::{Time, ToolDefinition};
use toolpost::registry::checked::write_of;
use toolpost::registry::fetched::FetchedDefinition;
use toolpost::store::Store;
use toolpost::store::tools::Precondition;

use crate::support::shapes::succeeded;
use crate::support::{Backend, Database, LIMIT, Node, Response, eventually};

/// Memory of the service with its default settings, in KiB (docs/operations/sizing.md).
const DOCUMENTED: u64 = 512 * 1024;
/// Just below `server.max_body_bytes`.
const LARGE: usize = 4_000_000;

/// Time limits of the service that a busy machine does not reach with the unoptimized program: it takes seconds to parse a
/// body, and the calls of all batches are committed together. Requests then need memory for longer, not less of it.
const TIME_LIMITS: &[(&str, &str)] =
    &[("TOOLPOST__SERVER__BODY_TIMEOUT_MS", "170000"), ("TOOLPOST__STORE__PATIENCE_MS", "170000")];

/// A service whose process is limited to the documented memory, as in a container, if the machine permits it: the
/// kernel kills the process above the limit. Its peak, including the pages of its program, is checked in any case.
struct LimitedService {
    // Dropped before its group is removed.
    node: Node,
    _group: Option<Group>,
}

impl LimitedService {
    /// Starts a service on a fresh database.
    async fn start(backend: Backend) -> Self {
        let node = Node::start(backend, TIME_LIMITS).await;
        let group = Group::around(&node);
        Self { node, _group: group }
    }
}

impl Deref for LimitedService {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

/// A memory control group of the kernel, version 1 or 2.
struct Group(PathBuf);

impl Group {
    fn around(node: &Node) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path =
            |of: &str| groups.lines().find_map(|line| Some(line.split_once(of)?.1.trim_start_matches('/').to_owned()));
        let (parent, limit) = match (path(":memory:"), path("0::")) {
            (Some(path), _) => (Path::new("/sys/fs/cgroup/memory").join(path), "memory.limit_in_bytes"),
            (None, path) => (Path::new("/sys/fs/cgroup").join(path?), "memory.max"),
        };
        let group = Self(parent.join(format!("toolpost-{}", node.id())));
        fs::create_dir(&group.0).ok()?;
        // Memory that the process already has stays charged to its first group. Pages of its program can be evicted and
        // do not count.
        let bytes = (DOCUMENTED - memory(node, "RssAnon:")) * 1024;
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        fs::write(group.0.join("cgroup.procs"), node.id().to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Builds a body of the test's size that repeats `middle`.
fn body(begin: &str, middle: &str, end: &str) -> Bytes {
    let times = (LARGE - begin.len() - end.len()) / middle.len();
    [begin, &middle.repeat(times), end].concat().into()
}

/// Returns a value of the process's status in the kernel, in KiB.
fn memory(node: &Node, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.id())).expect("it runs");
    let line = status.lines().find_map(|known| known.strip_prefix(line)).expect("such a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sends `count` requests at once, each over its own connection. Returns the number of 200 responses, and of other
/// responses by their code. Each of them is a 503.
async fn at_once(node: &LimitedService, count: usize, body: &Bytes) -> (usize, BTreeMap<String, usize>) {
    let mut requests = JoinSet::new();
    for _ in 0..count {
        let request = node.request(reqwest::Method::POST, "/tool-calls").header("content-type", "application/json");
        let request = request.body(body.clone()).send();
        requests.spawn(async move {
            let answer = tokio::time::timeout(LIMIT, request).await.expect("an answer in time").expect("an answer");
            let (status, text) = (answer.status().as_u16(), answer.bytes().await.expect("a whole answer"));
            if status == 200 {
                return None;
            }
            assert_eq!(status, 503, "{:.500}", String::from_utf8_lossy(&text));
            let problem: Value = serde_json::from_slice(&text).expect("a problem");
            let code = problem["code"].as_str().expect("a code");
            assert!(["OVERLOADED", "STORE_UNAVAILABLE"].contains(&code), "{problem}");
            Some(code.to_owned())
        });
    }
    let (mut taken, mut refused) = (0, BTreeMap::new());
    while let Some(answered) = requests.join_next().await {
        match answered.unwrap() {
            None => taken += 1,
            Some(code) => *refused.entry(code).or_default() += 1,
        }
    }
    let peak = memory(node, "VmHWM:");
    assert!(peak < DOCUMENTED, "{peak} KiB after {:.60}", String::from_utf8_lossy(body));
    (taken, refused)
}

/// Sends `count` requests at once, then a small call, which must succeed.
async fn survives(node: &LimitedService, count: usize, body: Bytes) {
    let (taken, refused) = at_once(node, count, &body).await;
    assert!(taken > 0, "none of {count} was taken, but {refused:?}: {:.60}", String::from_utf8_lossy(&body));
    let small = json!({"name": "echo", "arguments": {"a": 1}});
    let answer = eventually("room", || async {
        let answer: Response = node.post("/tool-calls", &small).await;
        (answer.status == 200).then(|| answer.ok())
    })
    .await;
    succeeded(&answer);
}

on_both_databases!(
    async fn many_large_bodies_at_once_do_not_end_the_service(backend: Backend) {
        let node = LimitedService::start(backend).await;
        // A subscriber that does not read.
        let _watcher = node.events("/events").await;
        survives(&node, 64, body(r#"{"name":"nope","arguments":{"t":""#, "x", r#""}}"#)).await;
        survives(&node, 32, body(r#"{"name":"echo","arguments":{"t":""#, "x", r#""}}"#)).await;
        // Arguments of a model are a JSON text within the JSON.
        survives(&node, 16, body(r#"{"name":"echo","arguments":"{\"t\":\""#, "x", r#"\"}"}"#)).await;
        // Rejected, with all received arguments.
        survives(&node, 16, body(r#"{"name":"calculate","arguments":{"t":""#, "x", r#""}}"#)).await;
        let call = format!(r#"{{"name":"echo","arguments":{{"t":"{}"}}}},"#, "x".repeat(100_000));
        survives(&node, 32, body(r#"{"calls":["#, &call, r#"{"name":"echo"}]}"#)).await;
    }
);

on_both_databases!(
    async fn bodies_of_many_small_values_do_not_end_the_service(backend: Backend) {
        let node = LimitedService::start(backend).await;
        for dense in [
            body(r#"{"name":"echo","arguments":{"t":["#, "[],", "0]}}"),
            body(r#"{"name":"calculate","arguments":{"t":["#, r#"{"":0},"#, "0]}}"),
        ] {
            // Each request needs most of the memory, so any number of concurrent requests may be rejected.
            at_once(&node, 16, &dense).await;
            eventually("all of the room", || async {
                let metrics = node.get("/metrics").await.text();
                metrics.contains("\ntoolpost_in_flight_memory_bytes 0\n").then_some(())
            })
            .await;
            survives(&node, 1, dense).await;
        }
    }
);

/// Returns a tool with ten parameters, which differ from those of every other tool.
fn tool_of_ten_strings(number: usize) -> ToolDefinition {
    let parameter = |index| {
        let description = format!("Parameter {index} of tool {number}, with a few words about its meaning.");
        (format!("field_{index}"), json!({"type": "string", "description": description, "maxLength": 100 + number}))
    };
    let properties: serde_json::Map<String, Value> = (0..10).map(parameter).collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["field_0"]});
    let (name, description) = (format!("tool_{number}"), format!("Does what tool {number} is for."));
    let executor = json!({"type": "builtin", "name": "echo"});
    let tool = json!({"name": name, "description": description, "input_schema": schema, "executor": executor});
    serde_json::from_value(tool).unwrap()
}

on_both_databases!(
    async fn three_thousand_tools_use_at_most_four_times_their_json(backend: Backend) {
        const TOOLS: usize = 3000;
        let empty = Node::start(backend, &[]).await;
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let fetched = FetchedDefinition::default();
        let write = |number| write_of(&tool_of_ten_strings(number), &fetched, Precondition::Absent).unwrap();
        let writes: Vec<_> = (0..TOOLS).map(write).collect();
        let json: usize = writes.iter().map(|write| write.definition.len()).sum();
        store.put_tools(writes, Time(1)).await.unwrap().unwrap();
        drop(store);
        let node = Node::on(database, &[]).await;
        let last = json!({"name": "tool_2999", "arguments": {"field_0": "x"}});
        succeeded(&node.post("/tool-calls", &last).await.ok());
        let taken = memory(&node, "RssAnon:").saturating_sub(memory(&empty, "RssAnon:")) * 1024;
        let allowed = u64::try_from(4 * json + 2048 * TOOLS).unwrap();
        assert!(taken <= allowed, "{taken} bytes for {json} bytes of JSON");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn idle_service_uses_little_memory() {
    let node = Node::start(Backend::Sqlite, &[]).await;
    // The OpenAPI document, built and dropped, would leave 8 MiB more.
    let own = memory(&node, "RssAnon:");
    assert!(own < 17 * 1024, "{own} KiB");
}
