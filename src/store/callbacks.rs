//! Callbacks on disk.

use std::sync::Arc;

use url::Url;
use uuid::Uuid;

use crate::domain::Call;

/// A callback as it is accepted with its call. It sleeps until the call has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackRow {
    /// The call whose end is told.
    pub call_id: Uuid,
    /// Where to.
    pub url: Arc<str>,
    /// Names the message, the same on every try.
    pub event_id: Uuid,
}

impl CallbackRow {
    /// Columns of a new row, in the order of [`CallbackRow::host`] and the fields: call, URL, host, event.
    pub const COLUMNS: &str = "call_id, url, host, event_id";

    /// The callback of a call, if its caller asked for one.
    #[must_use]
    pub fn of(call: &Call, event_id: Uuid) -> Option<Self> {
        let url = call.callback_url.clone()?;
        Some(Self { call_id: call.id, url, event_id })
    }

    /// Host and port of the URL.
    #[must_use]
    pub fn host(&self) -> String {
        let url = Url::parse(&self.url).ok();
        let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
        host.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
    }

    /// On SQLite: what precedes `VALUES (…), (…)`, with four values a row.
    #[must_use]
    pub fn insert_head() -> String {
        format!("INSERT INTO callbacks ({})", Self::COLUMNS)
    }

    /// On Postgres: the insert from four arrays, whose parameters are numbered from `first`.
    #[must_use]
    pub fn insert_from_arrays(first: usize) -> String {
        let [call, url, host, event] = [0, 1, 2, 3].map(|place| first + place);
        format!(
            "{} SELECT * FROM UNNEST(${call}::uuid[], ${url}::text[], ${host}::text[], ${event}::uuid[])",
            Self::insert_head()
        )
    }
}
