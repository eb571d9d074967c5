//! Reports of a running tool about itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::json;
use super::Phase;

/// How far a running call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// Steps done.
    pub current: f64,
    /// Steps in all, if known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// What a running tool says about itself; it adds up over the whole call.
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
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { tip, params, metadata, progress, phase } = self;
        tip.is_none() && progress.is_none() && phase.is_none() && params.is_empty() && metadata.is_empty()
    }

    /// Adds a later update to this one.
    pub fn merge(&mut self, later: Self) {
        self.tip = later.tip.or(self.tip.take());
        self.progress = later.progress.or(self.progress.take());
        self.phase = later.phase.or(self.phase);
        json::merge_deep(&mut self.params, later.params);
        json::merge_deep(&mut self.metadata, later.metadata);
    }
}
