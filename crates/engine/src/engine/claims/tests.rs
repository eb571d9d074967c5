use super::*;

fn request(worker: &str, wait_ms: u64) -> ClaimRequest {
    ClaimRequest { queue: "q".into(), worker: worker.into(), max: 1, wait: Duration::from_millis(wait_ms) }
}

fn scope() -> Scope {
    (Tenant::default(), None)
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_read_once_for_all_workers() {
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
    let wait = |worker: &'static str| {
        let (claims, drain) = (claims.clone(), drain.clone());
        tokio::spawn(async move { claims.claim(scope(), request(worker, 1000), &drain).await })
    };
    let first = wait("a");
    claims.woken().await;
    let mut batches = claims.take();
    assert_eq!(batches.len(), 1);
    claims.put_back(batches.pop().unwrap(), false);
    let second = wait("b");
    tokio::task::yield_now().await;
    assert!(claims.take().is_empty(), "the queue is known to be empty");
    claims.note_work(&Hint::Of((Tenant::default(), "q".into())));
    let batch = claims.take().pop().unwrap();
    assert_eq!(batch.claims.iter().map(|claim| &*claim.worker).collect::<Vec<_>>(), ["a", "b"]);
    claims.put_back(batch, false);
    assert!(first.await.unwrap().unwrap().is_empty());
    assert!(second.await.unwrap().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_wait_reads_the_queue() {
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
    let waiting = {
        let (claims, drain) = (claims.clone(), drain.clone());
        tokio::spawn(async move { claims.claim(scope(), request("a", 0), &drain).await })
    };
    claims.woken().await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let batch = claims.take().pop().unwrap();
    claims.put_back(batch, false);
    assert!(waiting.await.unwrap().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_waiting_claims() {
    let (claims, drain) = (Claims::default(), CancellationToken::new());
    drain.cancel();
    assert!(claims.claim(scope(), request("a", 60_000), &drain).await.unwrap().is_empty());
    assert!(claims.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_claims_whose_queue_is_being_read() {
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
    let waiting = {
        let (claims, drain) = (claims.clone(), drain.clone());
        tokio::spawn(async move { claims.claim(scope(), request("a", 60_000), &drain).await })
    };
    claims.woken().await;
    let batch = claims.take().pop().unwrap();
    drain.cancel();
    tokio::task::yield_now().await;
    claims.put_back(batch, false);
    let answer = tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("it does not wait on");
    assert!(answer.unwrap().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_calls_go_to_waiting_workers_only_if_no_other_call_waits() {
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
    let wait = |worker: &'static str, allowed: Option<Arc<AllowList>>| {
        let (claims, drain) = (claims.clone(), drain.clone());
        tokio::spawn(async move { claims.claim((Tenant::default(), allowed), request(worker, 1000), &drain).await })
    };
    let queue: Arc<str> = "q".into();
    let take = || claims.take_idle(&Tenant::default(), &queue);
    let some = AllowList::of(vec!["a.*".to_owned()]).unwrap().unwrap();
    let limited = wait("limited", Some(Arc::new(some)));
    let any = wait("any", None);
    tokio::task::yield_now().await;
    assert!(take().is_none(), "the queue was not read yet");
    for batch in claims.take() {
        claims.put_back(batch, false);
    }
    let batch = take().expect("a worker that takes any call");
    assert_eq!(batch.claims.iter().map(|claim| &*claim.worker).collect::<Vec<_>>(), ["any"]);
    assert!(take().is_none(), "no other worker waits");
    claims.put_back(batch, false);
    claims.note_work(&Hint::Of((Tenant::default(), queue.clone())));
    assert!(take().is_none(), "another call waits");
    limited.abort();
    any.abort();
}

#[tokio::test(start_paused = true)]
async fn offers_wait_a_moment_for_the_next_claim_of_an_active_worker() {
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
    let waited = async || {
        let begin = Instant::now();
        claims.await_claims(|| vec![(Tenant::default(), "q".into())]).await;
        begin.elapsed()
    };
    assert_eq!(waited().await, Duration::ZERO, "no worker was seen");
    let wait = || {
        let (claims, drain) = (claims.clone(), drain.clone());
        tokio::spawn(async move { claims.claim(scope(), request("a", 1000), &drain).await })
    };
    let first = wait();
    claims.woken().await;
    let mut batch = claims.take().pop().unwrap();
    assert_eq!(waited().await, SOON, "its claim is being served");
    for claim in std::mem::take(&mut batch.claims) {
        claim.answer.send(Ok(Vec::new())).unwrap();
    }
    claims.put_back(batch, false);
    first.await.unwrap().unwrap();
    let second = wait();
    assert_eq!(waited().await, Duration::ZERO, "it has claimed again");
    for batch in claims.take() {
        claims.put_back(batch, false);
    }
    assert_eq!(waited().await, Duration::ZERO, "it waits");
    second.abort();
}
