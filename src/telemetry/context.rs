//! For which request and which call the code works that runs now, so that each line of the log can say so. It is passed
//! from one poll to the next in the task, so nobody has to hand it on; a new task is told.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderValue;
use tokio::task::futures::TaskLocalFuture;
use uuid::Uuid;

tokio::task_local! {
    static NOW: Context;
}

/// What is worked for. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Context {
    request_id: Option<HeaderValue>,
    client: Option<IpAddr>,
    call: Option<CallContext>,
}

/// The call among it.
#[derive(Debug, Clone)]
struct CallContext {
    id: Uuid,
    call_id: Arc<str>,
    name: Arc<str>,
    traceparent: Option<Arc<str>>,
}

impl Context {
    /// A request, by what its answer has as `x-request-id`, and where it comes from, if that is known.
    #[must_use]
    pub fn of_request(id: HeaderValue, client: Option<IpAddr>) -> Self {
        Self { request_id: Some(id), client, call: None }
    }

    /// What is worked for now; nothing where nobody said so.
    #[must_use]
    pub fn current() -> Self {
        NOW.try_with(Self::clone).unwrap_or_default()
    }

    /// The same, for one call of it: its id, the caller's, and the tool.
    #[must_use]
    pub fn with_call(self, id: Uuid, call_id: &Arc<str>, name: &Arc<str>, traceparent: Option<Arc<str>>) -> Self {
        let call = CallContext { id, call_id: call_id.clone(), name: name.clone(), traceparent };
        Self { call: Some(call), ..self }
    }

    /// Does work in it.
    pub fn scope<F: Future>(self, work: F) -> TaskLocalFuture<Self, F> {
        NOW.scope(self, work)
    }

    /// The same, on a thread of its own.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        NOW.sync_scope(self, work)
    }

    /// What there is to say of it, by name.
    pub(super) fn say(mut say: impl FnMut(&'static str, &str)) {
        let _ = NOW.try_with(|now| {
            if let Some(id) = now.request_id.as_ref().and_then(|id| id.to_str().ok()) {
                say("request_id", id);
            }
            if let Some(client) = now.client {
                say("client", &client.to_string());
            }
            if let Some(CallContext { id, call_id, name, traceparent }) = &now.call {
                say("id", id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()));
                say("call_id", call_id);
                say("tool", name);
                // 00-TRACE-SPAN-FLAGS
                if let Some(trace) = traceparent.as_deref().and_then(|text| text.split('-').nth(1)) {
                    say("trace_id", trace);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Vec<(&'static str, String)> {
        let mut said = Vec::new();
        Context::say(|name, value| said.push((name, value.to_owned())));
        said
    }

    #[tokio::test]
    async fn what_is_worked_for_is_known_within_and_forgotten_behind() {
        let request = Context::of_request(HeaderValue::from_static("r-1"), Some(IpAddr::from([192, 0, 2, 7])));
        let inner = async {
            assert_eq!(said(), [("request_id", "r-1".to_owned()), ("client", "192.0.2.7".to_owned())]);
            let call = Context::current().with_call(
                Uuid::nil(),
                &"call_1".into(),
                &"echo".into(),
                Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            );
            let within = call.scope(async { said() }).await;
            let names: Vec<&str> = within.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["request_id", "client", "id", "call_id", "tool", "trace_id"]);
            assert_eq!(within[5].1, "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(said().len(), 2, "the call is over");
        };
        request.scope(inner).await;
        assert_eq!(said(), []);
    }
}
