//! A database is migrated to the newest version once.

use toolpost::domain::{Cursor, IdGenerator, Outcome};
use toolpost::store::Store;

use super::{Log, WHOLE, ended};
use crate::support::{Backend, Database};

on_both_databases!(
    async fn database_is_reopened_with_all_its_rows(backend: Backend) {
        let database = Database::fresh(backend).await;
        let mut log = Log::on(database.clone(), IdGenerator::counted()).await;
        let call = ended(&log.call("t"), Outcome::text("kept"), 1);
        log.write(&call, WHOLE).await.unwrap();
        log.take_published().await;
        log.store.close().await;
        for _ in 0..2 {
            let again = Store::open(&database.url).await.unwrap();
            assert_eq!(again.call(call.id).await.unwrap().unwrap().outcome, call.outcome);
            assert_eq!(again.newest().await.unwrap(), Cursor::at([5]));
            again.close().await;
        }
    }
);

on_both_databases!(
    async fn services_start_together_on_an_empty_database(backend: Backend) {
        let database = Database::empty(backend).await;
        let opening: Vec<_> = (0..4)
            .map(|_| {
                let url = database.url.clone();
                tokio::spawn(async move { Store::open(&url).await.map(|_| ()) })
            })
            .collect();
        for opened in opening {
            opened.await.unwrap().unwrap();
        }
    }
);
