//! Messages for the node that owns a call.

use toolpost::domain::{Failure, Outcome};
use toolpost::store::inbox::Message;
use uuid::Uuid;

use super::{ACCEPTED, Log, SETTLED, ended};
use crate::support::Backend;

impl Log {
    async fn leaves(&self, call: Uuid, kind: &str, body: &str) -> bool {
        self.store.leave_message(self.ids.next(), &message(call, kind, body)).await.unwrap()
    }

    async fn kinds(&self, call: Uuid) -> Vec<String> {
        let messages = self.store.messages_of("node", call, Uuid::nil()).await.unwrap();
        messages.into_iter().map(|(_, message)| message.kind).collect()
    }
}

fn message(call: Uuid, kind: &str, body: &str) -> Message {
    Message { call, kind: kind.to_owned(), body: body.to_owned() }
}

on_both_databases!(
    async fn only_a_call_that_is_there_and_has_not_ended_is_left_a_message(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.call("ask");
        assert!(!log.leaves(call.id, "result", "{}").await, "it is not on disk");
        log.write(&call, ACCEPTED).await.unwrap();
        assert!(log.leaves(call.id, "progress", "{}").await);
        assert!(log.leaves(call.id, "progress", "{}").await);
        assert!(log.leaves(call.id, "result", "first").await);
        assert!(!log.leaves(call.id, "result", "second").await, "the first one wins");
        let cancels = [(log.ids.next(), call.id), (log.ids.next(), log.ids.next())];
        log.store.leave_cancels(&cancels, "{}").await.unwrap();
        log.store.leave_cancels(&[(log.ids.next(), call.id)], "{}").await.unwrap();
        assert_eq!(log.kinds(call.id).await, ["progress", "progress", "result", "cancel"]);
        assert_eq!(log.store.posted_result(call.id).await.unwrap().as_deref(), Some("first"));
        log.write(&ended(&call, Outcome::text("x"), 1), SETTLED).await.unwrap();
        log.store.forget_messages_of_ended().await.unwrap();
        for kind in ["progress", "result", "cancel"] {
            assert!(!log.leaves(call.id, kind, "{}").await, "it has ended");
        }
        log.store.leave_cancels(&[(log.ids.next(), call.id)], "{}").await.unwrap();
        assert_eq!(log.store.posted_result(call.id).await.unwrap(), None);
    }
);

on_both_databases!(
    async fn reports_that_are_not_heard_are_bounded(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.call("ask");
        log.write(&call, ACCEPTED).await.unwrap();
        let mut taken = 0;
        while log.leaves(call.id, "progress", "{}").await {
            taken += 1;
            assert!(taken < 10_000);
        }
        assert!(taken >= 100, "{taken}");
        assert!(log.leaves(call.id, "result", "{}").await, "a result has its own place");
    }
);

on_both_databases!(
    async fn a_call_ends_without_a_result_only_if_none_was_posted(backend: Backend) {
        let log = Log::open(backend).await;
        let (posted, silent, others) = (log.call("a"), log.call("b"), log.call("c"));
        for call in [&posted, &silent, &others] {
            log.write(call, ACCEPTED).await.unwrap();
        }
        assert!(log.leaves(posted.id, "result", "posted").await);
        let end = |call: Uuid| message(call, "result", "failed");
        let refuse = |call: Uuid, node| {
            let (log, end) = (&log, end(call));
            async move { log.store.refuse_results(log.ids.next(), &end, node).await.unwrap() }
        };
        assert_eq!(refuse(posted.id, "node").await.as_deref(), Some("posted"));
        assert_eq!(refuse(silent.id, "node").await, None);
        assert!(!log.leaves(silent.id, "result", "late").await, "it comes too late");
        assert_eq!(refuse(others.id, "a node that has lost it").await, None);
        assert!(log.leaves(others.id, "result", "posted").await, "it is awaited where it is now");
        let failure = Failure::cancelled().into();
        log.write(&ended(&silent, failure, 1), SETTLED).await.unwrap();
    }
);
