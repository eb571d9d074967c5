use super::*;
use toolpost_core::domain::Time;
use toolpost_core::domain::call::CallRecord;

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
    let (claims, drain) = (Arc::new(Claims::default()), CancellationToken::new());
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

/// The claims of a node, and calls of one queue that ask for slots.
#[derive(Clone)]
struct Scene {
    claims: Arc<Claims>,
    drain: CancellationToken,
}

type Answered = tokio::task::JoinHandle<Answer>;

impl Scene {
    fn new() -> Self {
        Self { claims: Arc::default(), drain: CancellationToken::new() }
    }

    /// Begins a claim.
    async fn claim(&self, worker: &'static str, max: usize, allowed: Option<Arc<AllowList>>) -> Answered {
        let (claims, drain) = (self.claims.clone(), self.drain.clone());
        let request = ClaimRequest { max, ..request(worker, 1000) };
        let waiting = tokio::spawn(async move { claims.claim((Tenant::default(), allowed), request, &drain).await });
        tokio::task::yield_now().await;
        waiting
    }

    /// Finds that no stored call waits.
    fn find_empty(&self) {
        for batch in self.claims.take() {
            self.claims.put_back(batch, false);
        }
    }

    async fn reserve(&self, priority: i32, call: u128) -> Option<ClaimSlot> {
        let order = (Reverse(priority), Uuid::from_u128(call));
        self.claims.reserve(&(Tenant::default(), "q".into()), order).await
    }
}

fn claimed(call: u128) -> ClaimedCall {
    let ids = Uuid::from_u128(call);
    let record = CallRecord::accepted(ids, "t".into(), None, Arc::default(), Time(0), "n".into());
    ClaimedCall { call: Call::from(record).into(), attempt: 1, lease_ms: 1, arguments: Arc::default() }
}

fn ids_of(answer: Answer) -> Vec<u128> {
    answer.unwrap().iter().map(|claimed| claimed.call.id.as_u128()).collect()
}

#[tokio::test(start_paused = true)]
async fn new_calls_get_waiting_workers_only_if_no_stored_call_waits() {
    let scene = Scene::new();
    let some = AllowList::of(vec!["a.*".to_owned()]).unwrap().unwrap();
    let limited = scene.claim("limited", 1, Some(Arc::new(some))).await;
    assert!(scene.reserve(0, 1).await.is_none(), "the worker takes calls of some tools only");
    let any = scene.claim("any", 1, None).await;
    assert!(scene.reserve(0, 1).await.is_none(), "the queue was not read yet");
    scene.find_empty();
    let slot = scene.reserve(0, 1).await.expect("a worker that takes any call");
    assert_eq!(&**slot.worker(), "any");
    drop(slot);
    scene.claims.note_work(&Hint::Of((Tenant::default(), "q".into())));
    assert!(scene.reserve(0, 1).await.is_none(), "a stored call waits");
    limited.abort();
    any.abort();
}

#[tokio::test(start_paused = true)]
async fn worker_is_answered_once_its_slots_are_filled() {
    let scene = Scene::new();
    let waiting = scene.claim("a", 2, None).await;
    scene.find_empty();
    let slot = scene.reserve(0, 7).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    slot.fill(claimed(7));
    assert_eq!(ids_of(waiting.await.unwrap()), [7]);
}

#[tokio::test(start_paused = true)]
async fn claim_whose_slot_is_dropped_waits_on() {
    let scene = Scene::new();
    let waiting = scene.claim("a", 1, None).await;
    scene.find_empty();
    drop(scene.reserve(0, 1).await.unwrap());
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    scene.reserve(0, 2).await.unwrap().fill(claimed(2));
    assert_eq!(ids_of(waiting.await.unwrap()), [2]);
}

#[tokio::test(start_paused = true)]
async fn calls_wait_a_moment_for_the_next_claim_of_an_active_worker() {
    let scene = Scene::new();
    let waited = async |scene: &Scene| {
        let begin = Instant::now();
        assert!(scene.reserve(0, 9).await.is_none());
        begin.elapsed()
    };
    assert_eq!(waited(&scene).await, Duration::ZERO, "no worker was seen");
    let first = scene.claim("a", 1, None).await;
    scene.find_empty();
    scene.reserve(0, 1).await.unwrap().fill(claimed(1));
    first.await.unwrap().unwrap();
    assert_eq!(waited(&scene).await, SOON, "it claims again soon");
    assert_eq!(waited(&scene).await, Duration::ZERO, "it did not");
}

#[tokio::test(start_paused = true)]
async fn next_claim_gets_the_best_calls_that_wait_for_it() {
    let scene = Scene::new();
    let first = scene.claim("a", 1, None).await;
    scene.find_empty();
    let held = scene.reserve(0, 1).await.unwrap();
    let calls = [(0, 4), (0, 2), (5, 3)].map(|(priority, call)| {
        let scene = scene.clone();
        tokio::spawn(async move {
            let slot = scene.reserve(priority, call).await;
            let worker = slot.as_ref().map(|slot| slot.worker().to_string());
            slot.into_iter().for_each(|slot| slot.fill(claimed(call)));
            worker
        })
    });
    tokio::task::yield_now().await;
    let second = scene.claim("b", 2, None).await;
    let mut got = ids_of(second.await.unwrap());
    got.sort_unstable();
    assert_eq!(got, [2, 3], "the highest priority, then the oldest");
    let mut workers = Vec::new();
    for call in calls {
        workers.push(call.await.unwrap());
    }
    assert_eq!(workers, [None, Some("b".to_owned()), Some("b".to_owned())]);
    held.fill(claimed(1));
    assert_eq!(ids_of(first.await.unwrap()), [1]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_worker_that_is_gone_are_taken_back() {
    let scene = Scene::new();
    let waiting = scene.claim("a", 1, None).await;
    scene.find_empty();
    let slot = scene.reserve(0, 1).await.unwrap();
    waiting.abort();
    assert!(waiting.await.is_err());
    slot.fill(claimed(1));
    let undelivered = scene.claims.undelivered().await;
    assert_eq!(undelivered.iter().map(|claim| (claim.call.as_u128(), &*claim.worker)).collect::<Vec<_>>(), [(1, "a")]);
}

#[tokio::test(start_paused = true)]
async fn claim_that_ends_while_its_call_is_committed_gets_the_call() {
    let scene = Scene::new();
    let waiting = scene.claim("a", 1, None).await;
    scene.find_empty();
    let slot = scene.reserve(0, 1).await.unwrap();
    tokio::time::advance(Duration::from_millis(1001)).await;
    tokio::task::yield_now().await;
    slot.fill(claimed(1));
    assert_eq!(ids_of(waiting.await.unwrap()), [1]);
}

#[test]
fn calls_are_shared_evenly_among_claims() {
    let claim = |worker: &str, max| WaitingClaim {
        id: 0,
        worker: worker.into(),
        max,
        until: Instant::now(),
        answer: oneshot::channel().0,
    };
    let claims = [claim("a", 3), claim("b", 1), claim("c", 2)];
    let of = |max| {
        let Shares { owners, workers } = Shares::new(&claims, max);
        let names: String = workers.iter().map(|worker| &**worker).collect();
        (owners, names)
    };
    assert_eq!(of(9), (vec![0, 1, 2, 0, 2, 0], "abcaca".to_owned()));
    assert_eq!(of(4), (vec![0, 1, 2, 0], "abca".to_owned()));
    assert_eq!(of(0), (Vec::new(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn call_that_has_left_takes_no_claim() {
    let scene = Scene::new();
    let first = scene.claim("a", 1, None).await;
    scene.find_empty();
    let held = scene.reserve(0, 1).await.unwrap();
    let leaving = {
        let scene = scene.clone();
        tokio::spawn(async move { scene.reserve(0, 2).await })
    };
    tokio::task::yield_now().await;
    leaving.abort();
    assert!(leaving.await.is_err());
    let second = scene.claim("b", 1, None).await;
    assert_eq!(&**scene.reserve(0, 3).await.unwrap().worker(), "b");
    held.fill(claimed(1));
    assert_eq!(ids_of(first.await.unwrap()), [1]);
    second.abort();
}
