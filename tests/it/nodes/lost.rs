//! Lost connections, lost signals and notifications that are not signals.

use serde_json::json;
use sqlx::{Connection, PgConnection};
use toolpost::store::Store;
use toolpost::store::tools::Precondition;

use super::{answers, count, pair, received};
use crate::support::{App, Backend, Options, eventually};

const RECONNECTS: &str = "toolpost_signal_reconnects_total";

/// Ends the connections of all nodes whose last statement contains this text.
async fn kill(url: &str, statement: &str) {
    const SQL: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'toolpost-signals' AND strpos(query, $1) > 0";
    let mut connection = PgConnection::connect(url).await.unwrap();
    let killed = sqlx::query(SQL).bind(statement).execute(&mut connection).await.unwrap().rows_affected();
    assert_eq!(killed, 2, "one of each node");
}

/// Registers a tool without a signal.
async fn register_silently(url: &str, name: &str) {
    // This store has no node, so its signals wait until it is closed.
    let store = Store::open(url).await.unwrap();
    let tool = crate::support::app::echo_tool(name, json!({"type": "object"})).to_string();
    store.put_tool(name, &tool, Precondition::Absent, toolpost::domain::Time(1)).await.unwrap();
}

/// Waits until both nodes listen: each of them has received a signal of the other.
async fn listening(one: &App, other: &App) {
    for node in [one, other] {
        eventually("a signal", || async { (received(node, "presence").await > 0.0).then_some(()) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_a_lost_connection_are_found_after_it() {
    requires_postgres!();
    let (one, other) = pair().await;
    listening(&one, &other).await;
    for round in 1..=3 {
        register_silently(&one.database_url(), &format!("t{round}")).await;
        kill(&one.database_url(), "LISTEN").await;
        for node in [&one, &other] {
            answers(node, &format!("/tools/t{round}"), 200).await;
            assert_eq!(count(node, RECONNECTS).await, f64::from(round));
        }
    }
    one.echo_of("later", json!({})).await;
    answers(&other, "/tools/later", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_is_signalled_over_a_new_connection_if_the_old_one_was_lost() {
    requires_postgres!();
    let (one, other) = pair().await;
    listening(&one, &other).await;
    kill(&one.database_url(), "pg_notify").await;
    one.echo_of("t", json!({})).await;
    answers(&other, "/tools/t", 200).await;
    assert_eq!(count(&other, RECONNECTS).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn change_without_a_signal_is_found_by_a_poll() {
    requires_postgres!();
    let configure: fn(&mut toolpost::config::Config) = |config| config.node.poll_ms = 50;
    let options = Options { configure: Some(configure), ..Options::default() };
    let node = App::start_with(Backend::Postgres, options).await;
    register_silently(&node.database_url(), "t").await;
    answers(&node, "/tools/t", 200).await;
    assert_eq!(received(&node, "tools").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_that_are_not_signals_are_ignored() {
    requires_postgres!();
    let (one, other) = pair().await;
    listening(&one, &other).await;
    let mut connection = PgConnection::connect(&one.database_url()).await.unwrap();
    let long = format!("{{\"from\":\"{}\"", "x".repeat(7000));
    let payloads =
        ["", "tools", "{\"from\":7}", "[1", "{\"from\":\"x\",\"signals\":[{\"kind\":\"inbox\",\"call\":1}]}", &long];
    for payload in payloads {
        sqlx::query("SELECT pg_notify('toolpost', $1)").bind(payload).execute(&mut connection).await.unwrap();
    }
    one.echo_of("t", json!({})).await;
    answers(&other, "/tools/t", 200).await;
    for node in [&one, &other] {
        assert_eq!((count(node, RECONNECTS).await, received(node, "inbox").await), (0.0, 0.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_by_a_command_is_signalled_when_its_store_closes() {
    requires_postgres!();
    let (one, other) = pair().await;
    listening(&one, &other).await;
    let store = Store::open(&one.database_url()).await.unwrap();
    let tool = crate::support::app::echo_tool("t", json!({"type": "object"})).to_string();
    store.put_tool("t", &tool, Precondition::Absent, toolpost::domain::Time(1)).await.unwrap();
    store.close().await;
    for node in [&one, &other] {
        answers(node, "/tools/t", 200).await;
    }
}
