//! Sessions of MCP clients, and notices between nodes.

use std::time::Duration;

use toolpost::domain::{Tenant, Time};
use toolpost::store::mcp_sessions::{IDLE, McpSession};
use uuid::Uuid;

use super::Log;
use crate::support::Backend;

fn later(time: Time, by: Duration) -> Time {
    Time(time.0 + i64::try_from(by.as_micros()).unwrap())
}

on_both_databases!(
    async fn mcp_session_ends_when_it_is_deleted_or_idle(backend: Backend) {
        let log = Log::open(backend).await;
        let begun = Time(1_700_000_000_000_000);
        let session = |key| McpSession { tenant: Tenant::default(), key, params: "{}".into(), used_at: begun };
        let (first, second) = (session(Some(Uuid::from_u128(7))), session(None));
        log.store.insert_mcp_session("one", &first).await.unwrap();
        log.store.insert_mcp_session("two", &second).await.unwrap();
        assert!(log.store.insert_mcp_session("two", &first).await.is_err(), "an id is used once");
        assert_eq!(log.store.mcp_session("one", begun).await.unwrap(), Some(first));
        assert_eq!(log.store.mcp_session("two", begun).await.unwrap(), Some(second));
        log.store.touch_mcp_session("two", later(begun, IDLE / 2)).await.unwrap();
        let idle = later(begun, IDLE);
        assert_eq!(log.store.mcp_session("one", idle).await.unwrap(), None);
        assert!(log.store.mcp_session("two", idle).await.unwrap().is_some(), "it was used");
        log.store.delete_idle_mcp_sessions(idle).await.unwrap();
        assert!(!log.store.has_mcp_session("one").await.unwrap());
        log.store.delete_mcp_session("two").await.unwrap();
        assert!(!log.store.has_mcp_session("two").await.unwrap());
    }
);

on_both_databases!(
    async fn resumptions_of_a_stream_are_counted_and_forgotten(backend: Backend) {
        let log = Log::open(backend).await;
        let (call, now) = (Uuid::from_u128(1), Time(1_700_000_000_000_000));
        assert_eq!(log.store.mcp_resumptions(call).await.unwrap(), 0);
        for expected in 1..=3 {
            assert_eq!(log.store.resume_mcp_stream(call, now).await.unwrap(), expected);
        }
        assert_eq!(log.store.mcp_resumptions(call).await.unwrap(), 3);
        log.store.delete_idle_mcp_sessions(later(now, IDLE)).await.unwrap();
        assert_eq!(log.store.mcp_resumptions(call).await.unwrap(), 0);
    }
);

on_both_databases!(
    async fn notice_reaches_every_other_node_once(backend: Backend) {
        let log = Log::open(backend).await;
        let id = log.ids.next();
        for node in ["a", "b", "c"] {
            log.store.beat(node, Duration::from_secs(60)).await.unwrap();
        }
        assert_eq!(log.store.post_notice(id, "a", "{}").await.unwrap(), 2);
        assert!(log.store.notices("a").await.unwrap().is_empty());
        assert_eq!(log.store.notices("b").await.unwrap(), [(id, "{}".to_owned())]);
        log.store.forget_notice("b", id).await.unwrap();
        assert!(log.store.notices("b").await.unwrap().is_empty());
        assert!(log.store.awaits_notice(id).await.unwrap(), "one node has not read it");
        log.store.deregister("c").await.unwrap();
        log.store.forget_notices_of_lost_nodes().await.unwrap();
        assert!(!log.store.awaits_notice(id).await.unwrap());
        assert_eq!(log.store.post_notice(log.ids.next(), "a", "{}").await.unwrap(), 1);
        assert!(log.store.has_node("b").await.unwrap() && !log.store.has_node("c").await.unwrap());
    }
);
