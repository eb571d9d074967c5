//! Stored data of servers.

use serde_json::json;
use toolpost::domain::Time;
use toolpost::domain::preset::SealedValue;
use toolpost::store::Store;
use toolpost::store::upstreams::{PinMode, StoredUpstream};

use crate::support::{Backend, Database};

on_both_databases!(
    async fn servers_and_pins_are_stored_and_change_the_version(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let server = StoredUpstream {
            name: "a".into(),
            definition: json!({"pin": true}).to_string(),
            sealed: SealedValue { key_id: "k".into(), bytes: vec![0, 255, 7] },
            created_at: Time(5),
        };
        let (_, _, before) = store.upstreams().await.unwrap();
        assert!(store.insert_upstream(&server).await.unwrap());
        assert!(!store.insert_upstream(&server).await.unwrap(), "its name is taken");
        let pin = |hash: &str| vec![("t".to_owned(), hash.to_owned())];
        store.pin("a", &pin("1"), PinMode::First, Time(6)).await.unwrap();
        store.pin("a", &pin("2"), PinMode::First, Time(7)).await.unwrap();
        let (servers, pins, after) = store.upstreams().await.unwrap();
        assert!(servers == [server] && after > before);
        assert_eq!(pins.iter().map(|pin| pin.hash.as_str()).collect::<Vec<_>>(), ["1"], "the first one counts");
        store.pin("a", &pin("3"), PinMode::Accepted, Time(8)).await.unwrap();
        assert_eq!(store.upstreams().await.unwrap().1[0].hash, "3");
        assert!(store.delete_upstream("a").await.unwrap());
        assert!(!store.delete_upstream("a").await.unwrap());
        let (servers, pins, _) = store.upstreams().await.unwrap();
        assert!(servers.is_empty() && pins.is_empty(), "its pins go with it");
        store.close().await;
    }
);
