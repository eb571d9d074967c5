//! Lists that are written in statements of many rows.

use toolpost::domain::{Tenant, Time};
use toolpost::store::Store;
use toolpost::store::upstreams::PinMode;
use toolpost::store::workers::SeenWorker;

use crate::support::{Backend, Database};

const ROWS: usize = 1000;

on_both_databases!(
    async fn any_number_of_pins_is_written_and_each_once(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let pins = |hash: &str| (0..ROWS).map(|tool| (format!("t{tool}"), hash.to_owned())).collect::<Vec<_>>();
        store.pin("a", &pins("1"), PinMode::First, Time(1)).await.unwrap();
        store.pin("a", &pins("2"), PinMode::First, Time(2)).await.unwrap();
        let stored = store.upstreams().await.unwrap().1;
        assert!(stored.len() == ROWS && stored.iter().all(|pin| pin.hash == "1"), "{stored:?}");
        store.pin("a", &[pins("3"), pins("3")].concat(), PinMode::Accepted, Time(3)).await.unwrap();
        let stored = store.upstreams().await.unwrap().1;
        assert!(stored.len() == ROWS && stored.iter().all(|pin| pin.hash == "3"), "{stored:?}");
        store.close().await;
    }
);

on_both_databases!(
    async fn tools_of_a_worker_replace_those_before(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let worker = SeenWorker { tenant: Tenant::default(), queue: "q".into(), worker: "w".into(), sdk: None };
        let tools = |from: usize| (from..from + ROWS).map(|tool| format!("t{tool:04}")).collect::<Vec<_>>();
        for offered in [tools(0), tools(500), Vec::new()] {
            let twice = [offered.clone(), offered.clone()].concat();
            store.stores().set_worker_tools(&worker, &twice).await.unwrap();
            let stored = store.stores().worker_tools(&Tenant::default()).await.unwrap();
            let stored: Vec<_> = stored.into_iter().map(|(_, _, tool)| tool).collect();
            assert_eq!(stored, offered);
        }
        store.close().await;
    }
);
