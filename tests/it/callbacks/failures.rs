//! Failed deliveries: retries, the last attempt, redirects and unreachable receivers.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use super::Service;
use crate::support::{Answer, Backend, Database, HttpTool, ReceivedRequest};
use toolpost::domain::{Clock, Time};

on_both_databases!(
    async fn failed_try_is_repeated_on_schedule_with_the_same_event_id(backend: Backend) {
        let service = Service::start(backend).await;
        let tries = AtomicUsize::new(0);
        let receiver =
            HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Answer::status(500, "text/plain", "not now"),
                _ => Answer::text("ok"),
            })
            .await;
        let call = service.call(&receiver.url("/x")).await;
        let failed = service.tried(&call, 1).await;
        assert_eq!((&failed["state"], &failed["last_status"]), (&"pending".into(), &500.into()));
        assert_eq!(failed["last_error"], "HTTP 500 Internal Server Error");

        // Shortly before the callback is due, another callback is delivered and this one is not.
        service.clock.advance_ms(4_000);
        let other = HttpTool::answering(Answer::text("ok")).await;
        service.delivered(&*service.call(&other.url("/")).await).await;
        assert_eq!(receiver.requests().len(), 1);

        service.go_to_next(&failed);
        let delivered = service.delivered(&call).await;
        assert_eq!((&delivered["attempts"], &delivered["last_status"]), (&2.into(), &200.into()));
        assert!(delivered.get("last_error").is_none());
        let requests = receiver.requests();
        let [first, second] = requests.as_slice() else { panic!("{requests:#?}") };
        assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
        assert_eq!(first.body, second.body);
        assert_ne!(first.header("webhook-timestamp"), second.header("webhook-timestamp"));
        assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
        service.app.stop().await;
    }
);

on_both_databases!(
    async fn delivery_is_abandoned_visibly_after_the_last_try(backend: Backend) {
        let service = Service::start(backend).await;
        let receiver = HttpTool::answering(Answer::status(503, "text/plain", "secret")).await;
        let call = service.call(&receiver.url("/x")).await;
        let mut callback = service.tried(&call, 1).await;
        for attempt in 2..=9 {
            assert_eq!(callback["state"], "pending");
            service.go_to_next(&callback);
            callback = service.tried(&call, attempt).await;
        }
        assert_eq!((&callback["state"], &callback["attempts"]), (&"failed".into(), &9.into()));
        assert_eq!(callback["last_error"], "HTTP 503 Service Unavailable", "nothing of the answer's body");
        assert!(callback.get("next_attempt_at").is_none() && callback.get("delivered_at").is_none());
        assert!(service.clock.now().millis_since(call.ended_at.unwrap()) > 24 * 3600 * 1000);

        service.clock.advance_ms(100 * 24 * 3600 * 1000);
        let other = HttpTool::answering(Answer::text("ok")).await;
        service.delivered(&*service.call(&other.url("/")).await).await;
        let requests = receiver.requests();
        assert_eq!(requests.len(), 9);
        assert!(requests.iter().all(|request| request.header("webhook-id") == callback["event_id"]));
        service.app.stop().await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn redirect_is_not_followed() {
    let service = Service::start(Backend::Sqlite).await;
    let target = HttpTool::answering(Answer::text("ok")).await;
    let location = target.url("/");
    let receiver = HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| Answer::redirect(307, &location)).await;
    let callback = service.tried(&*service.call(&receiver.url("/")).await, 1).await;
    assert_eq!(callback["last_error"], "HTTP 307 Temporary Redirect: redirects are not followed");
    assert_eq!((&callback["state"], target.connections()), (&"pending".into(), 0));
    service.app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_address_is_a_failed_try_with_a_reason() {
    let database = Database::fresh(Backend::Sqlite).await;
    let service = Service::on(database, Clock::manual(Time(0)), &[]).await;
    let receiver = HttpTool::answering(Answer::text("ok")).await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let call = service.call(&format!("http://{host}:{}/", receiver.port())).await;
        let callback = service.tried(&call, 1).await;
        let error = callback["last_error"].as_str().unwrap();
        assert!(error.contains("is not allowed (loopback address"), "{host}: {error}");
        assert!(callback["state"] == "pending" && callback.get("last_status").is_none());
    }
    assert_eq!(receiver.connections(), 0);
    service.app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_receiver_is_a_failed_try() {
    let service = Service::start(Backend::Sqlite).await;
    let receiver = HttpTool::answering(Answer::CloseEarly).await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (url, expected) in [
        (receiver.url("/"), "closed the connection without a response"),
        (format!("http://{free}/"), "refused the connection"),
        ("http://127.0.0.1:6379/".into(), "port 6379 is not allowed"),
    ] {
        let callback = service.tried(&*service.call(&url).await, 1).await;
        let error = callback["last_error"].as_str().unwrap();
        assert!(error.contains(expected) && callback.get("last_status").is_none(), "{url}: {callback}");
    }
    service.app.stop().await;
}
