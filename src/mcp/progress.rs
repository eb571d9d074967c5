//! `notifications/progress`: forwards the reports of a running call to its client.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

use crate::domain::Call;
use crate::domain::event::{EventKind, Stage};
use crate::events::bus::CallSubscription;

/// Forwards the progress of one call.
pub(super) struct ProgressForwarder {
    pub reader: CallSubscription,
    pub token: ProgressToken,
    pub peer: Peer<RoleServer>,
}

impl ProgressForwarder {
    /// Sends progress until the call has ended or the client disconnects.
    pub async fn forward(mut self) {
        let mut steps = Steps::default();
        while let Some(framed) = self.reader.events.recv().await {
            match &framed.event.stage {
                Stage::Result => return,
                Stage::Reported(reported) if reported.kind == EventKind::Status => {}
                // The event of the end may carry the last report.
                Stage::Settled if framed.event.call.progress.is_some() => {}
                _ => continue,
            }
            let Some(step) = steps.next(&framed.event.call, &self.token) else { continue };
            if self.peer.notify_progress(step).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the progress of a call, if it is beyond `last` and has numbers.
pub(super) fn step_of(call: &Call, token: &ProgressToken, last: Option<f64>) -> Option<ProgressNotificationParam> {
    let progress = call.progress.as_ref().filter(|progress| last.is_none_or(|last| progress.current > last))?;
    let mut step = ProgressNotificationParam::new(token.clone(), progress.current);
    step.total = progress.total;
    step.message = progress.message.clone().or_else(|| call.tip.clone());
    Some(step)
}

/// Drops progress that does not increase, as the protocol requires.
#[derive(Default)]
struct Steps {
    last: Option<f64>,
    /// The number of reports; used as progress by tools that report no numbers.
    reports: u32,
}

impl Steps {
    fn next(&mut self, call: &Call, token: &ProgressToken) -> Option<ProgressNotificationParam> {
        self.reports += 1;
        let current = call.progress.as_ref().map_or(f64::from(self.reports), |progress| progress.current);
        if self.last.is_some_and(|last| current <= last) {
            return None;
        }
        self.last = Some(current);
        let mut step = ProgressNotificationParam::new(token.clone(), current);
        step.total = call.progress.as_ref().and_then(|progress| progress.total);
        let message = call.progress.as_ref().and_then(|progress| progress.message.clone());
        step.message = message.or_else(|| call.tip.clone());
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::NumberOrString;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::call::CallRecord;
    use crate::domain::call::StatusUpdate;
    use crate::domain::{Progress, Time};

    fn running() -> Call {
        let mut call =
            Call::from(CallRecord::accepted(Uuid::nil(), "a".into(), None, Arc::new(json!({})), Time(0), "n".into()));
        call.start(Time(0)).unwrap();
        call
    }

    fn sent(updates: Vec<StatusUpdate>) -> Vec<(f64, Option<f64>, Option<String>)> {
        let (mut call, mut steps) = (running(), Steps::default());
        let token = ProgressToken(NumberOrString::Number(1));
        let mut sent = Vec::new();
        for update in updates {
            call.update(update).unwrap();
            sent.extend(steps.next(&call, &token).map(|step| (step.progress, step.total, step.message)));
        }
        sent
    }

    fn at(current: f64, message: Option<&str>) -> StatusUpdate {
        let progress = Progress { current, total: Some(9.0), message: message.map(str::to_owned) };
        StatusUpdate { progress: Some(progress), ..StatusUpdate::default() }
    }

    fn tip(text: &str) -> StatusUpdate {
        StatusUpdate { tip: Some(text.into()), ..StatusUpdate::default() }
    }

    #[test]
    fn only_growing_progress_is_sent() {
        let steps = sent(vec![at(0.0, Some("begun")), at(2.0, None), at(2.0, None), at(1.0, None), at(3.0, Some("c"))]);
        let numbers: Vec<f64> = steps.iter().map(|(current, ..)| *current).collect();
        assert_eq!(numbers, [0.0, 2.0, 3.0]);
        assert_eq!(steps[0], (0.0, Some(9.0), Some("begun".into())));
    }

    #[test]
    fn reports_without_numbers_are_counted() {
        let steps = sent(vec![tip("one"), tip("two")]);
        assert_eq!(steps, [(1.0, None, Some("one".into())), (2.0, None, Some("two".into()))]);
    }
}
