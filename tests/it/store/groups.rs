//! Groups change atomically, together with their tools.

use std::sync::Arc;

use toolpost::domain::{Group, Time};
use toolpost::store::Store;
use toolpost::store::groups::GroupChange;
use toolpost::store::tools::Precondition;

use crate::support::{Backend, Database, bounded};

fn group(name: &str) -> Group {
    Group { is_stored: true, created_at: Time(1), updated_at: Time(1), ..Group::named(name) }
}

fn off(name: &str, is_named: bool) -> GroupChange {
    GroupChange { name: name.into(), active: Some(false), is_named, ..GroupChange::default() }
}

async fn active(store: &Store) -> Vec<(String, bool)> {
    store.groups().await.unwrap().into_iter().map(|group| (group.name, group.active)).collect()
}

fn on(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|(name, active)| ((*name).to_owned(), *active)).collect()
}

on_both_databases!(
    async fn unchanged_group_keeps_the_version(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        assert!(store.make_group(&group("a")).await.unwrap());
        assert!(store.make_group(&group("b")).await.unwrap());
        assert!(!store.make_group(&Group { active: false, ..group("a") }).await.unwrap());
        assert!(!store.change_groups(&[off("a", false), off("nobody", false)], Time(2)).await.unwrap());
        assert_eq!((active(&store).await, store.tools_version().await.unwrap()), (on(&[("a", true), ("b", true)]), 2));
        assert!(store.change_groups(&[off("a", false), off("named", true)], Time(3)).await.unwrap());
        let all = store.groups().await.unwrap();
        assert_eq!(all[0], Group { active: false, updated_at: Time(3), ..group("a") });
        assert_eq!(all[2], Group { active: false, created_at: Time(3), updated_at: Time(3), ..group("named") });
        assert_eq!(store.tools_version().await.unwrap(), 3);
        assert!(!store.switch_session_groups("nobody", &[("a".to_owned(), true)].into()).await.unwrap());
    }
);

on_both_databases!(
    async fn concurrent_changes_of_tools_and_groups_never_deadlock(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        for round in 0..10 {
            store.make_group(&group("g")).await.unwrap();
            let tasks: Vec<_> = (0..8)
                .map(|n| {
                    let (store, name) = (store.clone(), Arc::<str>::from(format!("t{}", n % 3)));
                    tokio::spawn(async move {
                        let definition = format!(r#"{{"groups":["g","h"],"n":{n}}}"#);
                        match n {
                            7 => store.delete_group("g", Time(round)).await.unwrap(),
                            6 => drop(store.change_groups(&[off("g", false)], Time(round)).await.unwrap()),
                            5 => drop(store.delete_tool(&name, None).await.unwrap()),
                            _ => {
                                store.put_tool(&name, &definition, Precondition::Anything, Time(n)).await.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                bounded("a change", task).await.unwrap();
            }
            store.delete_group("g", Time(round)).await.unwrap();
            assert_eq!(active(&store).await, []);
            for tool in store.tools().await.unwrap().0 {
                assert!(tool.definition.starts_with(r#"{"groups":["h"],"n":"#), "{}", tool.definition);
            }
        }
    }
);
