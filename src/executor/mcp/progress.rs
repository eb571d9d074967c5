//! From a server's progress notifications to the calls that they are about, in the order in which they came.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ProgressNotificationParam, ProgressToken};

use crate::domain::Progress;
use crate::domain::call::StatusUpdate;
use crate::executor::Emitter;

/// Most notifications that are kept for a call which has just been sent and is not yet known here.
const MOST_EARLY: usize = 64;

/// Who wants to hear of which call. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ProgressRouter(Arc<Mutex<RouterState>>);

#[derive(Debug, Default)]
struct RouterState {
    calls: HashMap<ProgressToken, Emitter>,
    early: VecDeque<ProgressNotificationParam>,
}

/// As long as it lives, progress goes to its call.
#[derive(Debug)]
pub struct ProgressSubscription {
    token: ProgressToken,
    listeners: ProgressRouter,
}

impl ProgressRouter {
    fn heard(&self) -> MutexGuard<'_, RouterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call wants to hear of itself, also what was said already.
    pub fn listen(&self, token: ProgressToken, emitter: &Emitter) -> ProgressSubscription {
        let mut heard = self.heard();
        heard.early.retain(|said| {
            let is_its_own = said.progress_token == token;
            if is_its_own {
                tell(said, emitter);
            }
            !is_its_own
        });
        heard.calls.insert(token.clone(), emitter.clone());
        drop(heard);
        ProgressSubscription { token, listeners: self.clone() }
    }

    /// A server has said something.
    pub fn say(&self, said: ProgressNotificationParam) {
        let mut heard = self.heard();
        if let Some(emitter) = heard.calls.get(&said.progress_token) {
            tell(&said, emitter);
            return;
        }
        if heard.early.len() == MOST_EARLY {
            heard.early.pop_front();
        }
        heard.early.push_back(said);
    }
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.listeners.heard().calls.remove(&self.token);
    }
}

fn tell(said: &ProgressNotificationParam, emitter: &Emitter) {
    if !said.progress.is_finite() {
        return;
    }
    let total = said.total.filter(|total| total.is_finite());
    let progress = Progress { current: said.progress, total, message: said.message.clone() };
    emitter.status(StatusUpdate { progress: Some(progress), ..StatusUpdate::default() });
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;
    use crate::executor::emitter::{self, Report};

    fn said(token: i64, progress: f64) -> ProgressNotificationParam {
        ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(token)), progress)
    }

    #[test]
    fn progress_goes_to_its_call_even_if_it_comes_first() {
        let (listeners, (emitter, mut reports)) = (ProgressRouter::default(), emitter::channel());
        for token in 0..100 {
            listeners.say(said(token, 1.0));
        }
        listeners.say(said(7, 2.0));
        let listening = listeners.listen(ProgressToken(NumberOrString::Number(7)), &emitter);
        let current = |report| match report {
            Some(Report::Status(update)) => update.progress.map(|progress| progress.current),
            _ => None,
        };
        assert_eq!(current(reports.take()), Some(2.0));
        listeners.say(said(7, 3.0));
        assert_eq!(current(reports.take()), Some(3.0));
        listeners.say(said(8, 4.0));
        assert_eq!(reports.take(), None);
        drop(listening);
        listeners.say(said(7, 5.0));
        assert_eq!(reports.take(), None);
        assert!(listeners.heard().early.len() <= MOST_EARLY && listeners.heard().calls.is_empty());
    }
}
