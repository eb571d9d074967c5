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
    async fn messages_are_stored_only_for_open_calls(backend: Backend) {
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
    async fn unread_reports_are_bounded(backend: Backend) {
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
    async fn call_ends_without_a_result_only_if_none_was_posted(backend: Backend) {
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

on_both_databases!(
    async fn chunk_is_replaced_by_its_reply_until_the_sender_has_read_it(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.call("echo");
        log.write(&call, ACCEPTED).await.unwrap();
        let (first, second) = (log.ids.next(), log.ids.next());
        for id in [first, second] {
            assert!(log.store.leave_message(id, &message(call.id, "chunk", "{}")).await.unwrap());
        }
        assert!(log.kinds(call.id).await.is_empty(), "chunks are read apart from other messages");
        assert!(log.store.chunks("another node", Uuid::nil()).await.unwrap().is_empty());
        let chunks = log.store.chunks("node", Uuid::nil()).await.unwrap();
        assert_eq!(
            chunks.iter().map(|(id, _, ended)| (*id, *ended)).collect::<Vec<_>>(),
            [(first, false), (second, false)]
        );
        assert_eq!(log.store.answer_to(first, call.id).await.unwrap(), (None, false));
        log.store.answer_chunk(first, "1").await.unwrap();
        log.store.answer_chunk(first, "2").await.unwrap();
        log.write(&ended(&call, Outcome::text("x"), 1), SETTLED).await.unwrap();
        log.store.forget_messages_of_ended().await.unwrap();
        assert_eq!(log.store.answer_to(first, call.id).await.unwrap(), (Some("1".to_owned()), true));
        assert!(!log.store.withdraw_chunk(first).await.unwrap(), "it is answered");
        let left = log.store.chunks("node", Uuid::nil()).await.unwrap();
        assert_eq!(left.iter().map(|(id, _, ended)| (*id, *ended)).collect::<Vec<_>>(), [(second, true)]);
        assert!(log.store.withdraw_chunk(second).await.unwrap());
        log.store.forget_message(first).await.unwrap();
        assert_eq!(log.store.answer_to(first, call.id).await.unwrap(), (None, true));
    }
);

on_both_databases!(
    async fn chunks_without_a_sender_are_deleted_by_their_age(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.call("echo");
        log.write(&call, ACCEPTED).await.unwrap();
        // Ids of version 7 begin with their time in milliseconds.
        let [old, new] = [1_000_u128, 2_000].map(|millis| Uuid::from_u128(millis << 80));
        for id in [old, new] {
            assert!(log.store.leave_message(id, &message(call.id, "chunk", "{}")).await.unwrap());
        }
        assert!(log.leaves(call.id, "progress", "{}").await);
        log.store.forget_old_chunks(toolpost::domain::Time(1_500_000)).await.unwrap();
        let left = log.store.chunks("node", Uuid::nil()).await.unwrap();
        assert_eq!(left.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [new]);
        assert_eq!(log.kinds(call.id).await, ["progress"]);
    }
);
