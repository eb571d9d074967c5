//! Values that are created once and kept.

use toolpost::store::Store;

use crate::support::{Backend, Database, bounded};

on_both_databases!(
    async fn one_of_starting_nodes_creates_the_signing_secret(backend: Backend) {
        let database = Database::fresh(backend).await;
        let mut nodes = Vec::new();
        for n in 0..8 {
            let url = database.url.clone();
            nodes.push(tokio::spawn(async move {
                let store = Store::open(&url).await.unwrap();
                store.signing_secret(&format!("made by {n}")).await.unwrap()
            }));
        }
        let mut found = Vec::new();
        for node in nodes {
            found.push(bounded("a node", node).await.unwrap());
        }
        assert!(found[0].starts_with("made by "), "{found:?}");
        assert!(found.iter().all(|secret| *secret == found[0]), "{found:?}");
        let later = Store::open(&database.url).await.unwrap();
        assert_eq!(later.signing_secret("made later").await.unwrap(), found[0]);
    }
);
