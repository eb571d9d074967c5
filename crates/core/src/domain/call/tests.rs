use proptest::prelude::*;

use super::*;
use crate::domain::Time;
use crate::domain::call::CallRecord;
use crate::domain::{Clock, IdGenerator};

const TWENTY_YEARS_MS: i64 = 20 * 365 * 24 * 3600 * 1000;

fn call() -> Call {
    Call::from(CallRecord::accepted(
        IdGenerator::counted().next(),
        "t".into(),
        None,
        Arc::default(),
        Time(0),
        "n".into(),
    ))
}

#[test]
fn call_moves_forward_and_ends_once() {
    let mut call = call();
    assert!(call.settle(Outcome::text("x"), Time(1)).is_err(), "a call cannot succeed without a run");
    call.start(Time(1)).unwrap();
    assert_eq!(call.status, Status::Doing);
    call.settle(Outcome::text("x"), Time(5_000)).unwrap();
    assert!(call.settle(Outcome::text("y"), Time(6)).is_err());
    assert!(call.update(StatusUpdate::default()).is_err());
    assert_eq!((call.status, call.phase), (Status::Success, Phase::Done));
}

#[test]
fn call_can_fail_without_a_run() {
    let mut call = call();
    call.settle(Failure::truncated("t").into(), Time(9_000)).unwrap();
    assert_eq!((call.status, call.duration_ms(), call.attempts), (Status::Error, Some(0), 0));
    assert_eq!(call.queued_ms(), 9);
}

#[test]
fn started_at_is_cleared_only_if_no_attempt_ran() {
    let mut call = call();
    call.start(Time(1)).unwrap();
    let mut again = call.clone();
    call.never_ran();
    assert_eq!(call.started_at, None);
    again.start_again().unwrap();
    again.never_ran();
    assert_eq!(again.started_at, Some(Time(1)));
}

#[test]
fn start_without_a_run_is_not_counted_but_stays_announced() {
    let mut call = call();
    call.start(Time(1)).unwrap();
    assert_eq!(call.runs(), 1);
    let mut again = call.clone();
    call.never_ran();
    assert_eq!((call.runs(), call.announced_start()), (0, Some(Time(1))));
    again.start_again().unwrap();
    again.never_ran();
    assert_eq!((again.runs(), again.announced_start()), (1, Some(Time(1))));
}

/// Returns a call that waits 30 ms and runs 700 ms, while the wall clock jumps by `jump_ms` in both.
fn measured_over_jumps(jump_ms: i64) -> Call {
    let clock = Clock::manual(Time(1_767_225_600_000_000));
    let mut call = call_at(&clock);
    clock.advance_ms(30);
    clock.jump_ms(jump_ms);
    assert_eq!(call.waited_ms(clock.moment()), 30);
    call.start(clock.moment()).unwrap();
    clock.jump_ms(jump_ms);
    clock.advance_ms(700);
    call.settle(Outcome::text("x"), clock.moment()).unwrap();
    call
}

fn call_at(clock: &Clock) -> Call {
    Call::from(CallRecord::accepted(
        IdGenerator::counted().next(),
        "t".into(),
        None,
        Arc::default(),
        clock.moment(),
        "n".into(),
    ))
}

#[test]
fn wall_clock_jump_changes_timestamps_but_not_durations() {
    for jump_ms in [TWENTY_YEARS_MS, -TWENTY_YEARS_MS, 1, 0] {
        let call = measured_over_jumps(jump_ms);
        assert_eq!((call.queued_ms(), call.duration_ms()), (30, Some(700)), "{jump_ms}");
        let (started, ended) = (call.started_at.unwrap().0, call.ended_at.unwrap().0);
        assert_eq!(ended - started, (700 + jump_ms) * 1000);
        assert!(call.metadata.is_empty());
        let measured = call.measured();
        assert_eq!(measured == Measured::default(), jump_ms == 0, "{measured:?}");
        let stored = Call::from(CallRecord { stopwatch: Stopwatch::stored(measured), ..call.into_record() });
        assert_eq!((stored.queued_ms(), stored.duration_ms()), (30, Some(700)));
    }
}

#[test]
fn run_across_a_restart_is_estimated_within_bounds() {
    for (jump_ms, duration_ms) in [(0, 1_000), (TWENTY_YEARS_MS, 300 + 5_000), (-TWENTY_YEARS_MS, 300)] {
        let clock = Clock::manual(Time(1_767_225_600_000_000));
        let mut call = call_at(&clock);
        call.record.limits = serde_json::from_value(serde_json::json!({"timeout_ms": 5_000})).unwrap();
        call.start(clock.moment()).unwrap();
        clock.advance_ms(700);
        clock.jump_ms(jump_ms);
        // The next process reads the call from the database.
        call.record.stopwatch = Stopwatch::stored(call.measured());
        call.resume(clock.moment());
        call.start_again().unwrap();
        clock.advance_ms(300);
        call.settle(Outcome::text("x"), clock.moment()).unwrap();
        assert_eq!((call.duration_ms(), call.queued_ms()), (Some(duration_ms), 0), "{jump_ms}");
        assert_eq!(call.metadata["estimated"], serde_json::json!(["duration_ms"]));
    }
}

#[test]
fn wait_across_a_restart_is_estimated_and_the_run_is_measured() {
    let clock = Clock::manual(Time(1_767_225_600_000_000));
    let mut call = call_at(&clock);
    clock.advance_ms(30);
    call.record.stopwatch = Stopwatch::default();
    call.resume(clock.moment());
    clock.jump_ms(-TWENTY_YEARS_MS);
    clock.advance_ms(5);
    call.start(clock.moment()).unwrap();
    clock.jump_ms(TWENTY_YEARS_MS);
    clock.advance_ms(7);
    call.settle(Outcome::text("x"), clock.moment()).unwrap();
    assert_eq!(
        (call.queued_ms(), call.duration_ms()),
        (5, Some(7)),
        "at least the time that this process has measured"
    );
    assert_eq!(call.metadata["estimated"], serde_json::json!(["queued_ms"]));
}

#[test]
fn updates_accumulate_over_the_call() {
    let mut call = call();
    call.start(Time(0)).unwrap();
    let update = |value: Value| StatusUpdate { params: value.as_object().unwrap().clone(), ..StatusUpdate::default() };
    call.update(StatusUpdate { tip: Some("a".into()), ..update(serde_json::json!({"p": {"x": 1}})) }).unwrap();
    call.update(update(serde_json::json!({"p": {"y": 2}}))).unwrap();
    assert_eq!(Value::Object(call.params.clone()), serde_json::json!({"p": {"x": 1, "y": 2}}));
    assert_eq!(call.tip.as_deref(), Some("a"));
    assert_eq!(call.last_seq, 5);
}

/// An operation on a call.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Start,
    StartAgain,
    Update(Option<Phase>),
    Succeed,
    Fail,
}

fn operation() -> impl Strategy<Value = Operation> {
    let phase = prop_oneof![Just(None), Just(Some(Phase::Retrying)), Just(Some(Phase::External))];
    prop_oneof![
        Just(Operation::Start),
        Just(Operation::StartAgain),
        phase.prop_map(Operation::Update),
        Just(Operation::Succeed),
        Just(Operation::Fail),
    ]
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Wait => 0,
        Status::Doing => 1,
        Status::Success | Status::Error => 2,
    }
}

proptest! {
    #[test]
    fn any_operations_move_forward_and_end_once(operations in proptest::collection::vec(operation(), 0..24)) {
        let mut call = call();
        let mut ends = 0;
        for (time, operation) in (1..).zip(operations) {
            let (before, seq, attempts) = (call.status, call.last_seq, call.attempts);
            let done = match operation {
                Operation::Start => call.start(Time(time)),
                Operation::StartAgain => call.start_again(),
                Operation::Update(phase) => call.update(StatusUpdate { phase, ..StatusUpdate::default() }),
                Operation::Succeed => call.settle(Outcome::text("x"), Time(time)),
                Operation::Fail => call.settle(Failure::cancelled().into(), Time(time)),
            };
            prop_assert_eq!(done.is_ok(), before.can_become(call.status) && (call.last_seq > seq));
            prop_assert!(rank(call.status) >= rank(before), "{:?} after {:?}", call.status, before);
            match done {
                // A rejected operation changes nothing, and every event gets its own number.
                Err(_) => prop_assert_eq!((call.status, call.last_seq, call.attempts), (before, seq, attempts)),
                Ok(()) => prop_assert_eq!(call.last_seq - seq, if call.status.is_terminal() { 2 } else { 1 }),
            }
            ends += usize::from(done.is_ok() && call.status.is_terminal());
            prop_assert_eq!(call.ended_at.is_some(), call.status.is_terminal());
            prop_assert_eq!(call.phase == Phase::Done, call.status.is_terminal());
        }
        prop_assert!(ends <= 1);
    }
}

#[test]
fn cloned_call_has_no_cached_json() {
    for format in [CallFormat::Native, CallFormat::Mcp] {
        let mut call = call();
        call.rewrite(|record| record.written = JsonCache::new(format));
        call.written.keep("{}".into());
        call.written.keep("later".into());
        let json = [CallFormat::Native, CallFormat::Mcp].map(|format| call.written.get(format));
        assert_eq!(
            json.map(|json| json.map(|json| &**json)),
            [CallFormat::Native, CallFormat::Mcp].map(|other| (other == format).then_some(&b"{}"[..]))
        );
        assert_eq!((call.clone().written.format(), call.clone().written.get(format)), (format, None));
    }
}
