//! Events can be read from every position, regardless of the node that wrote them.

use std::collections::HashMap;
use std::sync::Arc;

use toolpost::domain::{IdGenerator, Outcome};

use super::{Log, WHOLE, ended, life, whole};
use crate::support::{Backend, Database};

on_both_databases!(
    async fn pages_continue_from_every_position_without_a_gap_or_a_repeat(backend: Backend) {
        let mut log = Log::open(backend).await;
        let (one, two) = (life(&log.call("a")).0, life(&log.call("b")).0);
        // Two calls with changes in common commits, with large commits between them and more commits after them.
        for (mine, yours) in one.into_iter().zip(two) {
            log.journal.write(mine).await.unwrap();
            log.together(vec![yours, whole(&ended(&log.call("c"), Outcome::text("x"), 1))]).await;
        }
        let all = log.read_back(0, 100).await;
        assert_eq!(all.iter().map(|event| event.0).collect::<Vec<_>>(), (1..=all.len() as i64).collect::<Vec<_>>());
        for after in 0..=all.len() {
            for commits in [1, 3] {
                assert_eq!(log.read_back(after as i64, commits).await, all[after..], "after {after} by {commits}");
            }
        }
        assert_eq!(log.take_published().await, all);
    }
);

on_both_databases!(
    async fn two_journals_on_one_database_share_its_positions(backend: Backend) {
        let (database, ids) = (Database::fresh(backend).await, IdGenerator::counted());
        let one = Arc::new(Log::on(database.clone(), ids.clone()).await);
        let two = Arc::new(Log::on(database, ids).await);
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let log = if task % 2 == 0 { one.clone() } else { two.clone() };
                tokio::spawn(async move {
                    for n in 0..25 {
                        let call = log.call("shared");
                        if n % 3 == 0 {
                            for change in life(&call).0 {
                                log.journal.write(change).await.unwrap();
                            }
                        } else {
                            log.write(&ended(&call, Outcome::text("x"), n), WHOLE).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let stored = one.read_back(0, 7).await;
        assert_eq!(one.counts("shared").await, (200, 200, 0));
        let mut published = Vec::new();
        for log in [one, two] {
            let Ok(mut log) = Arc::try_unwrap(log) else { panic!("a task still writes") };
            let own = log.take_published().await;
            assert!(own.is_sorted_by_key(|event| event.0) && !own.is_empty());
            published.extend(own);
        }
        published.sort_by_key(|event| event.0);
        assert_eq!(published, stored);
        assert_eq!(
            stored.iter().map(|event| event.0).collect::<Vec<_>>(),
            (1..=stored.len() as i64).collect::<Vec<_>>()
        );
        let mut seqs: HashMap<String, u32> = HashMap::new();
        for (_, seq, _, data) in &stored {
            let id = serde_json::from_str::<serde_json::Value>(data).unwrap()["id"].to_string();
            let last = seqs.entry(id).or_default();
            assert_eq!(*seq, *last + 1);
            *last = *seq;
        }
        assert_eq!(seqs.len(), 200);
    }
);
