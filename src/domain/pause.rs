//! A tool that timed out too often in a row rests.

use serde::Serialize;

use super::Time;

/// A tool that rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Paused {
    /// Since when.
    pub since: Time,
    /// Until then, unless someone resumes it.
    pub until: Time,
    /// How many timeouts in a row it took.
    pub timeouts: u32,
}
