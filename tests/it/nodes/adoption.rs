//! A node that adopts the calls of a lost node keeps its own lease, and forgets nothing of the calls.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::support::shapes::succeeded;
use crate::support::{Backend, Node, eventually};

const CALLS: usize = 20;

/// Returns the number of calls of a node, and the number of its last heartbeat.
async fn owned(sql: &mut PgConnection, node: &str) -> (i64, i64) {
    let query =
        "SELECT (SELECT count(*) FROM tool_calls WHERE node = $1), (SELECT max(beat) FROM nodes WHERE node = $1)";
    sqlx::query_as(query).bind(node).fetch_one(sql).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_a_blocked_adoption_keeps_its_heartbeat_and_the_sessions() {
    requires_postgres!();
    let mut lost = Node::start(Backend::Postgres, &[("TOOLPOST__NODE__HEARTBEAT_MS", "200")]).await;
    let other = lost.second().await;
    let name = |node: serde_json::Value| node["node"].as_str().unwrap().to_owned();
    let (gone, adopter) = (name(lost.get("/system").await.ok()), name(other.get("/system").await.ok()));
    let tool = json!({"name": "ext", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    lost.register(tool).await;
    let mut ids = Vec::new();
    for n in 0..CALLS {
        ids.push(lost.accepted(json!({"name": "ext", "session": format!("s{n}"), "wait": "accepted"})).await);
    }
    let mut sql = PgConnection::connect(lost.database_url()).await.unwrap();
    let mut holder = PgConnection::connect(lost.database_url()).await.unwrap();
    let mut lock = holder.begin().await.unwrap();
    lost.kill().await;
    // The adopter gets the calls, but cannot read their sessions.
    sqlx::query("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    sqlx::query("DELETE FROM nodes WHERE node = $1").bind(&gone).execute(&mut sql).await.unwrap();
    let first = loop {
        let (calls, beat) = owned(&mut sql, &adopter).await;
        if calls == CALLS as i64 {
            break beat;
        }
        tokio::task::yield_now().await;
    };
    loop {
        // The row would be missing if another node had declared it lost, and the number would stay without heartbeats.
        let (calls, beat) = owned(&mut sql, &adopter).await;
        assert_eq!(calls, CALLS as i64);
        if beat >= first + 10 {
            break;
        }
        tokio::task::yield_now().await;
    }
    lock.rollback().await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        let result = json!({"output": format!("done {n}")});
        eventually("the result", || async {
            let answer = other.post(&format!("/tool-calls/{id}/result"), &result).await;
            (answer.status == 200).then_some(())
        })
        .await;
        let ended = other.ended(id).await;
        assert_eq!((succeeded(&ended), &ended["node"]), (format!("done {n}").as_str(), &json!(adopter)));
        assert_eq!(ended["session"], json!(format!("s{n}")));
    }
}
