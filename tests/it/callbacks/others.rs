//! Isolation: a receiver that hangs or fails does not delay callbacks to other receivers.

use super::Service;
use crate::support::{Answer, Backend, HttpTool, ReceivedRequest};

#[tokio::test(flavor = "multi_thread")]
async fn hanging_url_delays_no_other_delivery() {
    let service = Service::start(Backend::Sqlite).await;
    let receiver = HttpTool::start("127.0.0.1", |request: &ReceivedRequest| match request.target.as_str() {
        "/hangs" => Answer::AfterGate(Box::new(Answer::text("at last"))),
        _ => Answer::text("ok"),
    })
    .await;
    let mut hanging = Vec::new();
    for _ in 0..30 {
        hanging.push(service.call(&receiver.url("/hangs")).await);
    }
    receiver.received(4).await;
    let other = HttpTool::answering(Answer::text("ok")).await;
    let (beside, elsewhere) = (service.call(&receiver.url("/fine")).await, service.call(&other.url("/")).await);
    assert_eq!(service.delivered(&beside).await["attempts"], 1);
    assert_eq!(service.delivered(&elsewhere).await["attempts"], 1);
    // None of the hanging deliveries has ended, and no further delivery to that URL was begun.
    let log = receiver.log();
    assert_eq!(log.iter().filter(|line| *line == "start /hangs").count(), 4, "{log:?}");
    assert!(!log.contains(&"end /hangs".to_owned()), "{log:?}");
    receiver.open();
    for call in &hanging {
        assert_eq!(service.delivered(call).await["attempts"], 1);
    }
    service.app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_retries_do_not_block_first_tries() {
    let service = Service::start(Backend::Sqlite).await;
    // Each URL fails at once on the first request and hangs on later ones.
    let receivers = futures_util::future::join_all((0..10).map(|_| async {
        let seen = std::sync::Mutex::new(std::collections::HashSet::new());
        HttpTool::start("127.0.0.1", move |request: &ReceivedRequest| {
            match seen.lock().unwrap().insert(request.target.clone()) {
                true => Answer::status(500, "text/plain", ""),
                false => Answer::Never,
            }
        })
        .await
    }))
    .await;
    let mut failed = Vec::new();
    for receiver in &receivers {
        for n in 0..8 {
            failed.push(service.call(&receiver.url(&format!("/{n}"))).await);
        }
    }
    for call in &failed {
        service.tried(call, 1).await;
    }
    service.clock.advance_ms(5_000);
    service.app.callback_wakeup.notify_one();
    let begun = || receivers.iter().map(|receiver| receiver.requests().len()).sum::<usize>() - failed.len();
    crate::support::eventually("retries", || async { (begun() >= 32).then_some(()) }).await;
    let other = HttpTool::answering(Answer::text("ok")).await;
    for _ in 0..10 {
        service.delivered(&*service.call(&other.url("/")).await).await;
    }
    assert_eq!(begun(), 32, "half of the slots");
    service.app.stop().await;
}
