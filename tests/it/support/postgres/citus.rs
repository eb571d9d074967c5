//! Databases on an existing Citus cluster: the tests run there if `TOOLPOST_TEST_CITUS_URL` names its coordinator. The
//! user must be allowed to create databases and extensions on all servers.

use std::env;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

/// Returns the URL of the coordinator, if the tests are to run on Citus.
pub fn coordinator() -> Option<String> {
    env::var("TOOLPOST_TEST_CITUS_URL").ok().filter(|url| !url.is_empty())
}

/// Creates an empty database on all servers of the cluster and returns its URL on the coordinator.
pub async fn create_database(coordinator: &str) -> String {
    static CREATED: AtomicU32 = AtomicU32::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    let name = format!("toolpost_test_{}_{number}", std::process::id());
    let options = PgConnectOptions::from_str(coordinator).expect("the URL of a coordinator");
    let mut admin = PgConnection::connect_with(&options).await.expect("the coordinator");
    const NODES: &str = "SELECT nodename, nodeport, groupid = 0 FROM pg_dist_node WHERE isactive";
    let nodes: Vec<(String, i32, bool)> =
        sqlx::query_as(NODES).fetch_all(&mut admin).await.expect("the servers of Citus");
    let (own, workers): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|(_, _, is_coordinator)| *is_coordinator);
    let port = |port: i32| u16::try_from(port).expect("a port");
    for (host, number, _) in &workers {
        create_on(&options.clone().host(host).port(port(*number)), &name).await;
    }
    create_on(&options, &name).await;
    let options = options.database(&name);
    let mut connection = PgConnection::connect_with(&options).await.expect("the new database");
    for (host, number, _) in own {
        let query = sqlx::query("SELECT citus_set_coordinator_host($1, $2)").bind(host).bind(number);
        query.execute(&mut connection).await.expect("the coordinator of the new database");
    }
    for (host, number, _) in workers {
        let query = sqlx::query("SELECT citus_add_node($1, $2)").bind(host).bind(number);
        query.execute(&mut connection).await.expect("a worker of the new database");
    }
    options.to_url_lossy().to_string()
}

async fn create_on(server: &PgConnectOptions, name: &str) {
    let mut connection = PgConnection::connect_with(server).await.expect("a server of Citus");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create).execute(&mut connection).await.expect("a database");
    let mut connection = PgConnection::connect_with(&server.clone().database(name)).await.expect("the new database");
    sqlx::query("CREATE EXTENSION citus").execute(&mut connection).await.expect("the extension citus");
}
