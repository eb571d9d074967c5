//! Registered tools are updated by compare-and-swap.

use toolpost::domain::Time;
use toolpost::store::Store;
use toolpost::store::tools::Precondition;

use crate::support::{Backend, Database};

async fn put(store: &Store, definition: &str, expected: Precondition, at: i64) -> bool {
    store.put_tool("t", definition, expected, Time(at)).await.unwrap()
}

on_both_databases!(
    async fn tool_is_written_only_at_its_expected_revision(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        assert!(!put(&store, "1", Precondition::Revision(1), 1).await, "there is none");
        assert!(put(&store, "2", Precondition::Absent, 2).await);
        assert!(!put(&store, "3", Precondition::Absent, 3).await, "it is taken");
        assert!(!put(&store, "4", Precondition::Revision(2), 4).await, "it is older");
        assert!(put(&store, "5 \\u0000 😀", Precondition::Revision(1), 5).await);
        assert!(put(&store, "6", Precondition::Anything, 6).await);
        let (tools, version) = store.tools().await.unwrap();
        let found: Vec<_> =
            tools.iter().map(|t| (&*t.name, &*t.definition, t.revision, t.created_at.0, t.updated_at.0)).collect();
        assert_eq!((found, version), (vec![("t", "6", 3, 2, 6)], 3));
        assert!(store.delete_tool("t", Some(2)).await.unwrap().is_none());
        assert!(store.delete_tool("t", Some(3)).await.unwrap().is_some());
        assert!(store.delete_tool("t", None).await.unwrap().is_none());
        assert_eq!(store.tools().await.unwrap(), (vec![], 4), "what changed nothing did not move the version");
    }
);

on_both_databases!(
    async fn one_of_concurrent_writers_with_the_same_expectation_wins(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        for (round, expected) in
            [Precondition::Absent, Precondition::Revision(1), Precondition::Revision(2)].into_iter().enumerate()
        {
            let writers: Vec<_> = (0..8)
                .map(|n| {
                    let store = store.clone();
                    tokio::spawn(async move { put(&store, &format!("{round} {n}"), expected, n).await })
                })
                .collect();
            let mut won = 0;
            for writer in writers {
                won += u32::from(writer.await.unwrap());
            }
            assert_eq!((won, store.tools_version().await.unwrap()), (1, round as i64 + 1));
        }
    }
);
