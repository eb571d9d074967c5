//! Calls whose policies cannot be evaluated within their bounds, next to others, while the service is killed.

use super::{Scene, times};
use crate::support::{Backend, Client};

/// Number of clients whose calls are judged by the policy.
const JUDGED: usize = 8;

/// Creates a policy whose evaluation takes the square of the length of `args.load`.
async fn declare(client: &Client) {
    let when = "has(args.load) && args.load.exists(x, args.load.exists(y, x > y))";
    let policy = serde_json::json!({"name": "load", "when": when, "effect": "allow"});
    assert_eq!(client.post("/policies", &policy).await.status, 201);
}

on_both_databases!(
    async fn calls_survive_policies_beyond_their_limits(backend: Backend) {
        let (mut scene, _database) = Scene::open(&format!("policies on {backend:?}"), backend).await;
        declare(&scene.nodes[0].client()).await;
        scene.load.also_judged(JUDGED, &mut scene.chance);
        for _ in 0..times(4, 30) {
            scene.more(5..30).await;
            tokio::time::sleep(scene.chance.millis(0..30)).await;
            scene.kill(0).await;
            scene.start(0).await;
        }
        scene.more(50..51).await;
        let world = scene.close().await;
        let has = |code: &str| world.calls.iter().any(|call| call["error"]["code"] == code);
        assert!(has("POLICY_DENIED"), "no call exceeded the bounds");
    }
);
