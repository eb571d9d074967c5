//! Sessions are created once, updated column by column, and listed newest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use toolpost::domain::{Completion, LimitsSpec, Session, SessionState, Task, Time};
use toolpost::store::Store;
use toolpost::store::sessions::{SessionCursor, SessionFilter};

use crate::support::{Backend, Database};

fn session(id: &str, at: i64) -> Session {
    Session::new(id.into(), Time(at))
}

on_both_databases!(
    async fn session_is_read_back_unchanged(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let context = json!({"user": {"name": "\u{0} 😀", "depth": [[[1.5]]]}});
        let whole = Session {
            parent: Some("parent/ü".to_owned()),
            parent_call: Some(uuid::Uuid::from_u128(7)),
            context: context.as_object().unwrap().clone(),
            groups: BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]),
            limits: LimitsSpec { timeout_ms: Some(9), ..LimitsSpec::default() },
            tools: Some(vec!["echo".to_owned()]),
            callback_url: Some(Arc::from("http://example.com/")),
            task: Some(Task { agent_name: "a".to_owned(), task_name: "t".to_owned(), input: "i\u{0}".to_owned() }),
            ..session("ü 😀", 5)
        };
        assert!(store.make_session(&whole).await.unwrap());
        assert_eq!(store.session("ü 😀").await.unwrap().unwrap(), whole);
        assert!(!store.make_session(&session("ü 😀", 6)).await.unwrap(), "there is one");
        assert_eq!(store.session("ü 😀").await.unwrap().unwrap(), whole);
        assert_eq!(store.session("other").await.unwrap(), None);
    }
);

on_both_databases!(
    async fn groups_and_state_change_without_touching_each_other(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let switched = BTreeMap::from([("a".to_owned(), false)]);
        assert!(!store.set_session_groups("s", &switched).await.unwrap(), "there is none");
        store.make_session(&session("s", 1)).await.unwrap();
        let done = Completion { success: true, summary: "done\u{0}".to_owned(), error: None };
        assert!(store.end_session("s", SessionState::Completed, Some(&done), Time(2)).await.unwrap());
        assert!(store.set_session_groups("s", &switched).await.unwrap());
        assert!(!store.end_session("s", SessionState::Aborted, None, Time(3)).await.unwrap(), "it has ended");
        let found = store.session("s").await.unwrap().unwrap();
        assert_eq!((found.state, found.completion, found.groups), (SessionState::Completed, Some(done), switched));
        assert!(store.resume_session("s", Time(4)).await.unwrap());
        let found = store.session("s").await.unwrap().unwrap();
        assert_eq!((found.state, found.completion, found.updated_at), (SessionState::Active, None, Time(4)));
    }
);

on_both_databases!(
    async fn pages_are_newest_first_and_only_unused_sessions_are_deleted(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        for (id, at) in [("a", 1), ("b", 2), ("c", 2), ("d", 3)] {
            store.make_session(&session(id, at)).await.unwrap();
        }
        let page = |before: Option<(&str, i64)>| {
            let before = before.map(|(id, at)| SessionCursor { created_at: Time(at), id: id.to_owned() });
            let (store, filter) = (store.clone(), SessionFilter { before, limit: 2, ..SessionFilter::default() });
            async move {
                let found = store.sessions(&filter).await.unwrap();
                found.iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
            }
        };
        assert_eq!(
            (page(None).await, page(Some(("c", 2))).await),
            (vec!["d".into(), "c".into()], vec!["b".to_owned(), "a".to_owned()])
        );
        store.touch_session("a", Time(9)).await.unwrap();
        let idle = store.idle_sessions(Time(2), 9).await.unwrap();
        let mut idle: Vec<&str> = idle.iter().map(|(id, _)| id.as_str()).collect();
        idle.sort_unstable();
        assert_eq!(idle, ["b", "c"]);
        assert!(!store.delete_session("a", Some(Time(2))).await.unwrap(), "it was used");
        assert!(store.delete_session("b", Some(Time(2))).await.unwrap());
        assert!(store.delete_session("a", None).await.unwrap());
        assert_eq!(store.session("a").await.unwrap(), None);
    }
);
