//! Points at which a test build can be made to die, as a power cut would: `TOOLPOST_FAULT=NAME:N` ends the process at the
//! N-th pass of the point NAME. In any other build they are nothing.

/// A place on the path of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// An acceptance, or the start of an attempt, is about to be committed.
    BeforeAccept,
    /// It was committed, and nobody was told.
    AfterAccept,
    /// The tool is about to run.
    BeforeRun,
    /// It has run, and nothing of that is written.
    AfterRun,
    /// An end is about to be committed.
    BeforeSettle,
    /// It was committed, and nobody was told.
    AfterSettle,
}

#[cfg(feature = "fault-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::Point;

    /// The point that kills, and how many passes are left.
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

/// Passes a point.
#[inline]
pub fn pass(point: Point) {
    #[cfg(feature = "fault-points")]
    armed::pass(point);
    #[cfg(not(feature = "fault-points"))]
    let _ = point;
}
