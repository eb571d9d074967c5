//! Registered tools are updated by compare-and-swap, and many of them in few statements.

use toolpost::domain::Time;
use toolpost::store::Store;
use toolpost::store::tools::{Precondition, ToolWrite};

use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::statements::Statements;
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

fn write(number: usize, definition: &str, expected: Precondition) -> ToolWrite {
    let (name, definition) = (format!("tool_{number:03}"), definition.to_owned());
    ToolWrite { name, definition, checked: number.is_multiple_of(2).then(|| "mark".to_owned()), expected }
}

on_both_databases!(
    async fn tools_of_one_change_are_written_together_or_not_at_all(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let first = (0..300).map(|number| write(number, "1", Precondition::Absent)).collect();
        assert_eq!(store.put_tools(first, Time(1)).await.unwrap().unwrap().written.len(), 300);
        let second = |last: Precondition| {
            let replaced = (0..299).map(|number| write(number, "2", Precondition::Revision(1)));
            let put = (299..310).map(|number| write(number, "2", Precondition::Anything));
            let added = (310..599).map(|number| write(number, "2", Precondition::Absent));
            replaced.chain(put).chain(added).chain([write(599, "2", last)]).rev().collect::<Vec<_>>()
        };
        assert_eq!(store.put_tools(second(Precondition::Revision(1)), Time(2)).await.unwrap(), None, "one is missing");
        let mut two = second(Precondition::Absent);
        two.push(write(599, "2", Precondition::Absent));
        assert_eq!(store.put_tools(two, Time(2)).await.unwrap(), None, "one exists twice");
        let (tools, version) = store.tools().await.unwrap();
        assert!(tools.len() == 300 && version == 1 && tools.iter().all(|tool| tool.definition == "1"), "{tools:?}");
        let mut commit = store.put_tools(second(Precondition::Absent), Time(3)).await.unwrap().unwrap();
        assert_eq!((commit.before, commit.version, &*commit.written[0].name), (1, 2, "tool_599"));
        commit.written.reverse();
        assert_eq!(store.tools().await.unwrap(), (commit.written, 2));
        let (tools, _) = store.tools().await.unwrap();
        let found = |number: usize| {
            let tool = &tools[number];
            (tool.revision, tool.created_at.0, tool.updated_at.0, tool.checked.as_deref())
        };
        let expected = [(2, 1, 3, Some("mark")), (2, 1, 3, None), (1, 3, 3, Some("mark")), (1, 3, 3, None)];
        assert_eq!([0, 299, 300, 599].map(found), expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_tools_are_written_in_few_statements() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let statements = Statements::new();
    let proxy = PgProxy::recording(&database.url, &statements);
    let store = Store::open(proxy.url()).await.unwrap();
    for expected in [Precondition::Absent, Precondition::Revision(1)] {
        let writes = (0..2000).map(|number| write(number, "1", expected)).collect();
        assert_eq!(store.put_tools(writes, Time(1)).await.unwrap().unwrap().written.len(), 2000);
    }
    let texts = statements.texts();
    let of = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!((of("INSERT INTO tools "), of("UPDATE tools AS t")), (8, 8));
    store.close().await;
}
