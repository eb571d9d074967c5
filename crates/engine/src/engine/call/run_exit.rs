//! The ways in which a call leaves the steps.

use crate::interrupt::Interrupt;
use toolpost_core::domain::{Failure, Outcome};

/// The way in which a call leaves the steps.
pub(in crate::engine) enum RunExit {
    /// The tool returned this outcome.
    Done(Box<Outcome>),
    /// The call ends with this outcome, which is not from its tool.
    Settle(Box<Outcome>),
    /// The stored call stays unchanged; the next start or another node continues it.
    LeaveQueued,
    /// Another node has adopted the call.
    TakenOver,
}

impl From<Interrupt> for RunExit {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Cancelled => Failure::cancelled().into(),
            Interrupt::Drained => Self::LeaveQueued,
            Interrupt::Stopping => Failure::shutting_down().into(),
            Interrupt::TimedOut(limit_ms, name) => Failure::timeout(limit_ms, name).into(),
        }
    }
}

impl<T: Into<Outcome>> From<T> for RunExit {
    fn from(outcome: T) -> Self {
        Self::Settle(Box::new(outcome.into()))
    }
}
