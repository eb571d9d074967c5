//! Tickets, which browsers use for event streams because `EventSource` cannot send headers.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::auth::key_format;
use toolpost::config::Config;
use toolpost::domain::{Clock, IdGenerator, Time};
use toolpost::store::Stores;

use crate::support::app::echo_tool;
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::shapes::names_field;
use crate::support::{App, Backend, Client, Database, Node, Response};

/// Starts a service with a key that has all permissions; the service's own client sends no key.
async fn service(backend: Backend) -> (App, Client) {
    let app = App::start(backend).await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    (app, operator)
}

/// Creates a ticket for this path.
async fn ticket(client: &Client, path: &str) -> String {
    let answer = client.post("/events/ticket", &json!({"path": path})).await;
    assert_eq!(answer.header("cache-control"), "no-store");
    let answer = answer.ok();
    assert!(answer["expires_at"].is_string(), "{answer}");
    answer["ticket"].as_str().unwrap().to_owned()
}

/// Returns the path with a ticket.
fn with_ticket(path: &str, ticket: &str) -> String {
    let mark = if path.contains('?') { '&' } else { '?' };
    format!("{path}{mark}ticket={ticket}")
}

/// Returns the response to a rejected ticket.
async fn refused(app: &Client, path: &str, ticket: &str) -> Response {
    let answer = send(app.request(Method::GET, &with_ticket(path, ticket))).await;
    assert!(!answer.text().contains(ticket), "{}", answer.text());
    answer
}

on_both_databases!(
    async fn ticket_opens_its_stream_without_a_header_and_resumes_it(backend: Backend) {
        let (app, operator) = service(backend).await;
        let call = operator.call_with(json!({"name": "echo", "arguments": {"m": 1}, "session": "a b"})).await;
        let of_call = format!("/tool-calls/{}/events", id_of(&call));
        for path in ["/events?after=0", of_call.as_str(), "/sessions/a%20b/events"] {
            let ticket = ticket(&operator, path).await;
            let address = with_ticket(path, &ticket);
            let seen = app.events(&address).await.until(|event| event.is_result()).await;
            assert_eq!(seen.last().unwrap().data["id"], call["id"], "{path}");
            // Resumes as a browser does after a lost connection.
            let before_last = &seen[seen.len() - 2].id;
            let next = app.events_after(&address, before_last).await.next().await.unwrap();
            if !path.starts_with("/sessions") {
                assert_eq!(Some(&next), seen.last(), "{path}");
            }
        }
    }
);

on_both_databases!(
    async fn ticket_is_for_its_path_alone(backend: Backend) {
        let (app, operator) = service(backend).await;
        for session in ["one", "other"] {
            operator.call_with(json!({"name": "echo", "session": session})).await;
        }
        let all = ticket(&operator, "/events").await;
        let one = ticket(&operator, "/sessions/one/events").await;
        let filtered = ticket(&operator, "/events?session=one").await;
        for (path, ticket) in [
            ("/sessions/one/events", &all),
            ("/sessions/other/events", &one),
            ("/events", &one),
            ("/events", &filtered),
            ("/events?session=other", &filtered),
        ] {
            assert_eq!(refused(&app, path, ticket).await.problem(403)["code"], "FORBIDDEN", "{path}");
        }
        for path in ["/tools", "/tool-calls", "/sessions/one", "/sessions/one/messages", "/events/ticket"] {
            assert!([401, 405].contains(&refused(&app, path, &all).await.status), "{path}");
        }
        // A narrower filter, and any position.
        for path in ["/events?session=one&name=echo&after=0", "/events?session=one"] {
            app.events(&with_ticket(path, &filtered)).await;
        }
        app.events(&with_ticket("/events?name=echo", &all)).await;
        // The query is validated as usual.
        refused(&app, "/events?after=x", &all).await.problem(422);
        for bad in ["", "x", "tpt_", "tpt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(
                send(app.request(Method::GET, &with_ticket("/events", bad))).await.problem(401)["code"],
                "INVALID_KEY"
            );
        }
    }
);

on_both_databases!(
    async fn ticket_has_the_permissions_of_its_key(backend: Backend) {
        let (app, operator) = service(backend).await;
        operator.register(echo_tool("other", json!({"type": "object"}))).await;
        let (key, _) = operator.key(json!({"scopes": ["call"], "tools": ["echo"]})).await;
        let client = app.with_key(&key);
        let all = client.post("/events/ticket", &json!({"path": "/events"})).await;
        assert_eq!(all.problem(403)["code"], "SCOPE_MISSING");
        let other = operator.call_with(json!({"name": "other", "session": "s"})).await;
        let path = format!("/tool-calls/{}/events", id_of(&other));
        let ticket_of_other = ticket(&client, &path).await;
        refused(&app, &path, &ticket_of_other).await.problem(404);
        let mut events =
            app.events(&with_ticket("/sessions/s/events", &ticket(&client, "/sessions/s/events").await)).await;
        client.call_with(json!({"name": "echo", "session": "s"})).await;
        let seen = events.until(|event| event.is_result()).await;
        assert!(seen.iter().all(|event| event.data["name"] != "other"), "{seen:?}");
        // The ticket gives no access to other tenants.
        let (key, _) = operator.key(json!({"scopes": ["read"], "tenant": "two"})).await;
        let two = app.with_key(&key);
        let ticket = ticket(&two, "/sessions/s/events").await;
        refused(&app, "/sessions/s/events", &ticket).await.problem(404);
    }
);

on_both_databases!(
    async fn ticket_and_its_streams_end_with_its_key(backend: Backend) {
        let (app, operator) = service(backend).await;
        for expires in [Value::Null, json!("4s")] {
            let (key, id) = operator.key(json!({"scopes": ["read"], "expires": expires})).await;
            let ticket = ticket(&app.with_key(&key), "/events").await;
            let mut events = app.events(&with_ticket("/events", &ticket)).await;
            if expires.is_null() {
                assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
            }
            assert_eq!(events.rest().await, []);
            assert_eq!(refused(&app, "/events", &ticket).await.problem(401)["code"], "INVALID_KEY");
        }
    }
);

on_both_databases!(
    async fn ticket_outlives_a_restart(backend: Backend) {
        let (app, operator) = service(backend).await;
        let call = operator.call("echo", json!({})).await;
        let ticket = ticket(&operator, "/events").await;
        let app = app.restart().await;
        let mut events = app.events(&with_ticket("/events?after=0", &ticket)).await;
        assert_eq!(events.next().await.unwrap().data["id"], call["id"]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn ticket_is_valid_on_every_node() {
    requires_postgres!();
    let (first, operator) = service(Backend::Postgres).await;
    let second = first.second().await;
    let call = operator.call("echo", json!({})).await;
    let ticket = ticket(&operator, "/events").await;
    for node in [&second, &first] {
        let mut events = node.events(&with_ticket("/events?after=0", &ticket)).await;
        assert_eq!(events.next().await.unwrap().data["id"], call["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_service_accepts_tickets_until_it_has_a_key() {
    let app = App::on_sqlite().await;
    let ticket = ticket(&app, "/events").await;
    app.events(&with_ticket("/events", &ticket)).await;
    assert_eq!(refused(&app, "/events", &format!("{ticket}x")).await.status, 401);
    app.key(json!({"scopes": ["admin"]})).await;
    refused(&app, "/events", &ticket).await.problem(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn path_of_no_event_stream_gets_no_ticket() {
    let (_app, operator) = service(Backend::Sqlite).await;
    for path in
        ["", "/", "/tools", "/tool-calls/x/events", "events", "/gateway/events", "/events?ticket=a", "/sessions/s"]
    {
        let problem = operator.post("/events/ticket", &json!({"path": path})).await.problem(422);
        names_field(&problem, "/path");
    }
    names_field(&operator.post("/events/ticket", &json!({"path": 1})).await.problem(422), "/path");
    names_field(&operator.post("/events/ticket", &json!({"path": "/events", "x": 1})).await.problem(422), "x");
}

/// Starts a service whose clock the test controls.
async fn clocked(database: &Database, clock: Clock) -> (Client, Stores, DropGuard) {
    let mut config = Config::default();
    config.store.database_url.clone_from(&database.url);
    let app = toolpost::app::App::builder(config).clock(clock, IdGenerator::random()).start().await.unwrap();
    let stores = app.store.stores().clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()));
    let stop = CancellationToken::new();
    tokio::spawn(toolpost::http::serve(app, listener, stop.clone()));
    (client, stores, stop.drop_guard())
}

on_both_databases!(
    async fn ticket_is_used_within_a_minute_and_then_valid_for_12_hours(backend: Backend) {
        let (database, clock) = (Database::fresh(backend).await, Clock::manual(Time(1_700_000_000_000_000)));
        let (app, stores, _stop) = clocked(&database, clock.clone()).await;
        let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
        let operator = app.with_key(&key);
        let (unused, used) = (ticket(&operator, "/events").await, ticket(&operator, "/events").await);
        clock.advance_ms(59_000);
        app.events(&with_ticket("/events", &used)).await;
        clock.advance_ms(1_000);
        refused(&app, "/events", &unused).await.problem(401);
        clock.advance_ms(12 * 60 * 60 * 1000 - 2_000);
        let mut events = app.events(&with_ticket("/events", &used)).await;
        clock.advance_ms(1_000);
        refused(&app, "/events", &used).await.problem(401);
        assert_eq!(events.rest().await, [], "a stream ends with its ticket");
        // Expired tickets are deleted.
        let is_kept = async |ticket: &str| stores.ticket(&key_format::hash(ticket), Time(0)).await.unwrap().is_some();
        assert!(is_kept(&unused).await && is_kept(&used).await);
        let last = ticket(&operator, "/events").await;
        stores.delete_ended_tickets(clock.now()).await.unwrap();
        assert_eq!((is_kept(&unused).await, is_kept(&used).await, is_kept(&last).await), (false, false, true));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn ticket_is_never_logged() {
    let mut node = Node::start(Backend::Sqlite, &[("TOOLPOST__LOG__FILTER", "trace")]).await;
    let ticket = ticket(&node, "/events").await;
    node.events(&with_ticket("/events", &ticket)).await;
    // Rejected requests and unknown paths do not log it either.
    for path in ["/sessions/s/events", "/tools", "/nowhere", "/events?after=x"] {
        refused(&node, path, &ticket).await;
    }
    node.signal("TERM");
    let log = node.end().await.err;
    assert!(log.contains("answered"), "{log}");
    assert!(!log.contains(&ticket[4..]), "the ticket is in the log");
}
