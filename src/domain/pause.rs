//! Pauses of tools after consecutive timeouts.

use serde::Serialize;

use super::Time;

/// The pause of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Paused {
    /// Start of the pause.
    pub since: Time,
    /// End of the pause, unless the tool is resumed earlier.
    pub until: Time,
    /// Number of consecutive timeouts that caused the pause.
    pub timeouts: u32,
}
