//! Reports of a running tool about itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::json;
use super::Phase;

/// The progress of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// Number of completed steps.
    pub current: f64,
    /// Total number of steps, if known.
    pub total: Option<f64>,
    /// Description of the current step.
    pub message: Option<String>,
}

/// An update from a running tool. Updates accumulate over the call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusUpdate {
    /// Replaces the tip.
    pub tip: Option<String>,
    /// Merged deeply.
    pub params: Map<String, Value>,
    /// Merged deeply.
    pub metadata: Map<String, Value>,
    /// Replaces the progress.
    pub progress: Option<Progress>,
    /// Replaces the phase.
    pub phase: Option<Phase>,
}

impl StatusUpdate {
    /// Returns `true` if the update changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { tip, params, metadata, progress, phase } = self;
        tip.is_none() && progress.is_none() && phase.is_none() && params.is_empty() && metadata.is_empty()
    }

    /// Merges a later update into this one.
    pub fn merge(&mut self, later: Self) {
        self.tip = later.tip.or(self.tip.take());
        self.progress = later.progress.or(self.progress.take());
        self.phase = later.phase.or(self.phase);
        json::merge_deep(&mut self.params, later.params);
        json::merge_deep(&mut self.metadata, later.metadata);
    }
}
