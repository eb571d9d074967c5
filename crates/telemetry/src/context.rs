//! The request and the call that the current task works for. Every line of the log contains them. The context is
//! task-local; a new task must be given it explicitly.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use tokio::task::futures::TaskLocalFuture;
use uuid::Uuid;

tokio::task_local! {
    static CURRENT: Context;
}

/// The request and call of the current task. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Context {
    request_id: Option<HeaderValue>,
    client: Option<IpAddr>,
    call: Option<CallContext>,
}

/// The call of a context.
#[derive(Debug, Clone)]
struct CallContext {
    id: Uuid,
    call_id: Arc<str>,
    name: Arc<str>,
    traceparent: Option<Arc<str>>,
}

impl Context {
    /// Creates the context of a request from its `x-request-id` and the address of its client, if known.
    #[must_use]
    pub fn of_request(id: HeaderValue, client: Option<IpAddr>) -> Self {
        Self { request_id: Some(id), client, call: None }
    }

    /// Returns the context of the current task, or an empty context.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Adds a call: its id, the caller's id, and the tool.
    #[must_use]
    pub fn with_call(self, id: Uuid, call_id: &Arc<str>, name: &Arc<str>, traceparent: Option<Arc<str>>) -> Self {
        let call = CallContext { id, call_id: call_id.clone(), name: name.clone(), traceparent };
        Self { call: Some(call), ..self }
    }

    /// Runs a future in this context.
    pub fn scope<F: Future>(self, work: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, work)
    }

    /// Runs a closure in this context, for example on a blocking thread.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// Passes each field of the current context to `record`.
    pub(super) fn visit(mut record: impl FnMut(&'static str, &str)) {
        let _ = CURRENT.try_with(|now| {
            if let Some(id) = now.request_id.as_ref().and_then(|id| id.to_str().ok()) {
                record("request_id", id);
            }
            if let Some(client) = now.client {
                record("client", &client.to_string());
            }
            if let Some(CallContext { id, call_id, name, traceparent }) = &now.call {
                record("id", id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()));
                record("call_id", call_id);
                record("tool", name);
                // The format is `00-TRACE-SPAN-FLAGS`.
                if let Some(trace) = traceparent.as_deref().and_then(|text| text.split('-').nth(1)) {
                    record("trace_id", trace);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        Context::visit(|name, value| fields.push((name, value.to_owned())));
        fields
    }

    #[tokio::test]
    async fn context_is_known_only_within_its_scope() {
        let request = Context::of_request(HeaderValue::from_static("r-1"), Some(IpAddr::from([192, 0, 2, 7])));
        let inner = async {
            assert_eq!(fields(), [("request_id", "r-1".to_owned()), ("client", "192.0.2.7".to_owned())]);
            let call = Context::current().with_call(
                Uuid::nil(),
                &"call_1".into(),
                &"echo".into(),
                Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            );
            let within = call.scope(async { fields() }).await;
            let names: Vec<&str> = within.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["request_id", "client", "id", "call_id", "tool", "trace_id"]);
            assert_eq!(within[5].1, "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(fields().len(), 2, "the call is out of scope");
        };
        request.scope(inner).await;
        assert_eq!(fields(), []);
    }
}
