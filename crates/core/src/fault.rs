//! Points at which a test build can abort, to simulate a power failure: `TOOLPOST_FAULT=NAME:N` aborts the process at
//! the N-th pass of the point NAME. And assertions of test builds. Other builds ignore both.

/// A point on the path of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before an acceptance or the start of an attempt is committed.
    BeforeAccept,
    /// After that commit, before the caller is notified.
    AfterAccept,
    /// Before the tool runs.
    BeforeRun,
    /// After it is noted that this node works on an adopted call.
    AfterWorkNote,
    /// After the tool has run, before its result is written.
    AfterRun,
    /// Before the end of a call is committed.
    BeforeSettle,
    /// After that commit, before the caller is notified.
    AfterSettle,
    /// Before an approval is requested, decided or expired in its row.
    BeforeApproval,
    /// After that commit, before the decider is answered and the call reads its approval.
    AfterApproval,
    /// Before an attempt is offered to workers.
    BeforeOffer,
    /// After that commit, before a worker is woken.
    AfterOffer,
    /// Before calls are given to workers.
    BeforeClaim,
    /// After that commit, before a worker is answered.
    AfterClaim,
    /// Before the result of a worker is accepted or stored.
    BeforeAnswer,
    /// After that, before the worker is answered.
    AfterAnswer,
}

#[cfg(feature = "fault-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::Point;

    /// The point that aborts, and the number of passes left.
    static PLAN: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();

    pub fn pass(point: Point) {
        let plan = PLAN.get_or_init(|| {
            let text = std::env::var("TOOLPOST_FAULT").ok()?;
            let (name, passes) = text.split_once(':')?;
            Some((name.to_owned(), AtomicI64::new(passes.parse().ok()?)))
        });
        if let Some((name, left)) = plan
            && *name == format!("{point:?}")
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            std::process::abort();
        }
    }
}

/// Passes a point, and aborts if it is the planned pass.
#[inline]
pub fn pass(point: Point) {
    #[cfg(feature = "fault-points")]
    armed::pass(point);
    #[cfg(not(feature = "fault-points"))]
    let _ = point;
}

/// Whether this is a test build.
pub const IS_TEST_BUILD: bool = cfg!(feature = "fault-points");

/// Asserts a rule of the code in a test build. Elsewhere, the condition is compiled, but not evaluated.
#[macro_export]
macro_rules! assert_in_tests {
    ($($assertion:tt)*) => { if $crate::fault::IS_TEST_BUILD { assert!($($assertion)*) } };
}
pub use assert_in_tests;
