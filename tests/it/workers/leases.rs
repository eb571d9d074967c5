//! Leases: workers that stop, are frozen and come back.

use serde_json::json;

use super::{
    answer, brief, brief_idempotent, called, claim_now, claim_one, finish, finish_in_time, heartbeat, post, service,
};
use crate::support::Backend;
use crate::support::calls::{assert_counts, id_of};
use crate::support::shapes::{failed, succeeded};

on_both_databases!(
    async fn repeatable_call_is_assigned_again(backend: Backend) {
        for annotations in [json!({"idempotent": true}), json!({"read_only": true})] {
            let app = service(backend, json!({"executor": brief(), "annotations": annotations})).await;
            let id = called(&app, json!({"x": 1})).await;
            let first = claim_one(&app, "frozen").await;
            let second = claim_one(&app, "w").await;
            assert_eq!((id_of(&second), &second["attempt"]), (id.clone(), &json!(2)));
            assert_eq!(second["arguments"], json!({"x": 1}));
            // The frozen worker comes back.
            assert_eq!(heartbeat(&app, "frozen", &[&first]).await["lost"], json!([first["id"]]));
            post(&app, &first, "progress", &json!({"tip": "mine"})).await.problem(409);
            assert!(answer(&app, &first, &json!("of the first")).await, "ignored");
            let attempt = finish_in_time(&app, "w", second, &json!("of the second")).await;
            let ended = app.ended(&id).await;
            assert_eq!((succeeded(&ended), &ended["attempts"]), ("of the second", &json!(attempt)));
            let expected = json!({"execution_count": 1, "success_count": 1, "retry_count": attempt - 1});
            assert_counts(&app.stats("t").await, expected);
        }
    }
);

on_both_databases!(
    async fn any_other_call_ends_with_an_unknown_outcome(backend: Backend) {
        let app = service(backend, json!({"executor": brief()})).await;
        let id = called(&app, json!({})).await;
        let call = claim_one(&app, "frozen").await;
        let ended = app.ended(&id).await;
        assert!(failed(&ended, "OUTCOME_UNKNOWN").starts_with("Error: The outcome of tool \"t\" is unknown"));
        assert!(answer(&app, &call, &json!("late")).await, "ignored");
        assert!(claim_now(&app, "w").await.is_empty(), "no worker gets it again");
        assert_eq!(app.stored(&id).await["error"]["code"], "OUTCOME_UNKNOWN");
    }
);

on_both_databases!(
    async fn heartbeats_keep_a_call(backend: Backend) {
        let app = service(backend, json!({"executor": brief()})).await;
        let id = called(&app, json!({})).await;
        let call = claim_one(&app, "w").await;
        // Twice as long as the lease.
        let until = tokio::time::Instant::now() + std::time::Duration::from_millis(2000);
        while tokio::time::Instant::now() < until {
            assert_eq!(heartbeat(&app, "w", &[&call]).await, json!({"cancelled": [], "lost": []}));
        }
        finish(&app, &call, &json!("kept")).await;
        assert_eq!(succeeded(&app.ended(&id).await), "kept");
    }
);

on_both_databases!(
    async fn call_can_be_lost_by_several_workers(backend: Backend) {
        let app = service(backend, brief_idempotent()).await;
        let id = called(&app, json!({})).await;
        let mut lost = Vec::new();
        for attempt in 1..=3 {
            let call = claim_one(&app, &format!("w{attempt}")).await;
            assert_eq!(call["attempt"], attempt);
            lost.push(call);
        }
        let last = claim_one(&app, "last").await;
        for call in &lost {
            assert!(answer(&app, call, &json!("old")).await, "ignored");
        }
        let attempt = finish_in_time(&app, "last", last, &json!("new")).await;
        assert_eq!(
            (succeeded(&app.ended(&id).await), app.stored(&id).await["attempts"].clone()),
            ("new", json!(attempt))
        );
    }
);

on_both_databases!(
    async fn lost_unclaimed_call_ends(backend: Backend) {
        let more =
            json!({"executor": brief(), "annotations": {"idempotent": true}, "limits": {"queue_timeout_ms": 500}});
        let app = service(backend, more).await;
        let id = called(&app, json!({})).await;
        claim_one(&app, "frozen").await;
        failed(&app.ended(&id).await, "NO_WORKER");
        assert!(claim_now(&app, "w").await.is_empty());
    }
);

on_both_databases!(
    async fn timeout_revokes_the_call_from_its_worker(backend: Backend) {
        let app = service(
            backend,
            json!({"annotations": {"idempotent": true}, "limits": {"timeout_ms": 1500},
            "retry": {"max_attempts": 2, "initial_backoff_ms": 1}}),
        )
        .await;
        let id = called(&app, json!({})).await;
        let first = claim_one(&app, "slow").await;
        let second = claim_one(&app, "quick").await;
        assert_eq!((id_of(&second), &second["attempt"]), (id.clone(), &json!(2)));
        assert!(answer(&app, &first, &json!("too late")).await, "ignored");
        finish(&app, &second, &json!("in time")).await;
        assert_eq!(succeeded(&app.ended(&id).await), "in time");
        // Without a further attempt the call ends.
        let id = app.accepted(json!({"name": "t", "wait": "accepted", "retry": {"max_attempts": 1}})).await;
        let call = claim_one(&app, "slow").await;
        let ended = app.ended(&id).await;
        assert_eq!(failed(&ended, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 1500ms (timeout_ms)");
        assert_eq!(heartbeat(&app, "slow", &[&call]).await["lost"], json!([id]));
    }
);
