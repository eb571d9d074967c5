//! Creation and validation of API keys, for the API and the command line.

use uuid::Uuid;

use super::key_format;
use crate::domain::time::span_ms;
use crate::domain::{AllowList, Scopes, Tenant, Time, json};
use crate::store::keys::StoredKey;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Maximum lifetime of a key, in milliseconds: a hundred years.
const MAX_LIFETIME_MS: u64 = 100 * 365 * DAY_MS;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The specification of a new key.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The tenant that owns the key.
    pub tenant: Tenant,
    /// A display name.
    pub name: String,
    /// The scopes of the key.
    pub scopes: Scopes,
    /// Globs over the names of tools; an empty list restricts nothing.
    pub tools: Vec<String>,
    /// Globs over the names of queues; an empty list restricts nothing.
    pub queues: Vec<String>,
    /// The lifetime, such as `30d`; `None` means unlimited.
    pub expires: Option<String>,
    /// Maximum number of requests per minute.
    pub rate: Option<u32>,
    /// Maximum number of concurrent requests.
    pub concurrency: Option<u32>,
}

/// A fault of the specification: a JSON pointer and a message.
pub type InvalidKeySpec = (String, String);

impl NewKey {
    /// Creates a key. Returns its stored form and the key itself, which cannot be retrieved later.
    ///
    /// # Errors
    /// Returns the fault of the specification, or `None` if the operating system provides no random bytes.
    pub fn create_key(self, id: Uuid, now: Time) -> Result<(StoredKey, String), Option<InvalidKeySpec>> {
        let Self { tenant, name, scopes, tools, queues, expires, rate, concurrency } = self;
        let fault = |pointer: &str, message: String| Some((pointer.to_owned(), message));
        if name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            let message = format!("must have at most {MAX_NAME_CHARS} characters and no control characters");
            return Err(fault("/name", message));
        }
        if scopes == Scopes::default() {
            return Err(fault(
                "/scopes",
                "must name at least one of call, read, tools, approve, work and admin".to_owned(),
            ));
        }
        for (member, globs) in [("tools", &tools), ("queues", &queues)] {
            if let Err((index, message)) = AllowList::of(globs.clone()) {
                return Err(fault(&format!("/{member}/{index}"), message));
            }
        }
        let expires_at = match expires.as_deref() {
            None => None,
            Some(span) => {
                let millis = span_ms(span).filter(|millis| *millis <= MAX_LIFETIME_MS).ok_or_else(|| {
                    let message = format!(
                        "\"{}\" is not a valid time: use a number with s, m, h, d or w, such as `30d`, up to a hundred \
                            years",
                        json::shorten(span, 32)
                    );
                    fault("/expires", message)
                })?;
                Some(now.plus_millis(millis))
            }
        };
        for (pointer, bound) in [("/rate", rate), ("/concurrency", concurrency)] {
            if bound.is_some_and(|bound| !(1..=i32::MAX.unsigned_abs()).contains(&bound)) {
                let message = format!("must be 1 to {}; omit it to use the value of the settings", i32::MAX);
                return Err(fault(pointer, message));
            }
        }
        let key = key_format::make().map_err(|_| None)?;
        let prefix = key_format::prefix_of(&key).ok_or(None)?.to_owned();
        let stored = StoredKey {
            id,
            tenant,
            name,
            prefix,
            hash: key_format::hash(&key),
            scopes,
            tools,
            queues,
            rate,
            concurrency,
            created_at: now,
            expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        Ok((stored, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(change: impl FnOnce(&mut NewKey)) -> Result<(StoredKey, String), Option<InvalidKeySpec>> {
        let mut new = NewKey {
            tenant: Tenant::default(),
            name: String::new(),
            scopes: Scopes::of_text("call"),
            tools: Vec::new(),
            queues: Vec::new(),
            expires: None,
            rate: None,
            concurrency: None,
        };
        change(&mut new);
        new.create_key(Uuid::nil(), Time(5))
    }

    #[test]
    fn stored_key_does_not_contain_the_secret() {
        let (stored, key) = new(|new| new.expires = Some("2d".into())).unwrap();
        assert!(!format!("{stored:?}").contains(&key[stored.prefix.len()..]));
        assert_eq!((stored.hash, stored.expires_at), (key_format::hash(&key), Some(Time(5).plus_millis(2 * DAY_MS))));
    }

    #[test]
    fn fault_names_its_pointer() {
        let pointer_of = |change: fn(&mut NewKey)| new(change).unwrap_err().unwrap().0;
        assert_eq!(pointer_of(|new| new.scopes = Scopes::default()), "/scopes");
        assert_eq!(pointer_of(|new| new.tools = vec!["a".into(), "{".into()]), "/tools/1");
        assert_eq!(pointer_of(|new| new.queues = vec!["{".into()]), "/queues/0");
        assert_eq!(pointer_of(|new| new.name = "a\nb".into()), "/name");
        assert_eq!(pointer_of(|new| new.rate = Some(0)), "/rate");
        for bad in ["", "30", "d", "0d", "-1d", "1y", "99999999999999999999d", "200000w", "1\u{e9}"] {
            assert_eq!(new(|new| new.expires = Some(bad.into())).unwrap_err().unwrap().0, "/expires", "{bad}");
        }
    }
}
