//! Who asks, and what they may: their tenant, their scopes, and the tools that there are for them.

use std::fmt;
use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Tenant, glob};

/// Most globs of an allow-list.
const MOST_GLOBS: usize = 256;

/// Something that a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Call tools, and follow these calls and their sessions.
    Call,
    /// Read what has happened: calls, events, sessions, stats.
    Read,
    /// Register and change tools, their groups and presets.
    Tools,
    /// Everything, keys and hooks too.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Call, Self::Read, Self::Tools, Self::Admin];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
            Self::Tools => "tools",
            Self::Admin => "admin",
        }
    }

    /// The scope that is written so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// Scopes of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Returns the set of these scopes.
    #[must_use]
    pub const fn of<const N: usize>(scopes: [Scope; N]) -> Self {
        let (mut all, mut rest) = (0, scopes.as_slice());
        while let [first, others @ ..] = rest {
            all |= 1 << *first as u8;
            rest = others;
        }
        Self(all)
    }

    /// Whether one of these is among them; `admin` is every one.
    #[must_use]
    pub fn allow(self, any: Self) -> bool {
        self.has(Scope::Admin) || self.0 & any.0 != 0
    }

    /// Whether these are no more than the others.
    #[must_use]
    pub fn are_within(self, others: Self) -> bool {
        others.has(Scope::Admin) || self.0 & !others.0 == 0
    }

    fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Their names with blanks between them, as OAuth 2.0 has it (RFC 6749, section 3.3).
    #[must_use]
    pub fn to_text(self) -> String {
        self.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Of such a text; what is no scope of ours is none.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        text.split_ascii_whitespace().filter_map(Scope::named).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | 1 << scope as u8))
    }
}

/// The tools that there are for a caller, by globs over their names.
#[derive(Clone)]
pub struct AllowList {
    globs: Vec<String>,
    set: GlobSet,
}

impl fmt::Debug for AllowList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AllowList").field(&self.globs).finish()
    }
}

impl PartialEq for AllowList {
    fn eq(&self, other: &Self) -> bool {
        self.globs == other.globs
    }
}

impl AllowList {
    /// Of these globs; `None` where there are none: then nothing is restricted.
    ///
    /// # Errors
    /// The place of a glob that is none, and why.
    pub fn of(globs: Vec<String>) -> Result<Option<Self>, (usize, String)> {
        if globs.is_empty() {
            return Ok(None);
        }
        if globs.len() > MOST_GLOBS {
            return Err((MOST_GLOBS, format!("there are at most {MOST_GLOBS} globs")));
        }
        let mut builder = GlobSetBuilder::new();
        for (place, text) in globs.iter().enumerate() {
            builder.add(glob(text).map_err(|fault| (place, fault))?);
        }
        let set = builder.build().map_err(|error| (0, error.kind().to_string()))?;
        Ok(Some(Self { globs, set }))
    }

    /// Whether a tool of this name is among them.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.set.is_match(tool)
    }

    /// As it was written.
    #[must_use]
    pub fn globs(&self) -> &[String] {
        &self.globs
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Whose everything is that they see and make.
    pub tenant: Tenant,
    /// What they may do.
    pub scopes: Scopes,
    /// The tools that there are for them; `None`: all of their tenant.
    pub tools: Option<Arc<AllowList>>,
    /// The key that they have shown, if it was one.
    pub key: Option<Uuid>,
}

impl Caller {
    /// Whoever keeps the service: the default tenant, and everything.
    #[must_use]
    pub fn operator() -> Self {
        Self { tenant: Tenant::default(), scopes: Scope::ALL.into_iter().collect(), tools: None, key: None }
    }

    /// Whether a tool of this name can exist for them.
    #[must_use]
    pub fn may_have(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.has(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_is_every_scope_and_others_are_themselves() {
        let reader = Scopes::of_text("read openid call");
        assert_eq!(reader.to_text(), "call read");
        assert!(reader.allow(Scopes::of([Scope::Tools, Scope::Read])) && !reader.allow(Scopes::of([Scope::Tools])));
        let admin = Scopes::of_text("admin");
        assert!(admin.allow(Scopes::of([Scope::Tools])) && reader.are_within(admin) && !admin.are_within(reader));
        assert!(!Scopes::default().allow(Scopes::of(Scope::ALL)));
    }

    #[test]
    fn an_allow_list_goes_by_globs_and_none_restricts_nothing() {
        let list = AllowList::of(vec!["mail.*".into(), "echo".into()]).unwrap().unwrap();
        assert!(list.has("mail.send") && list.has("echo") && !list.has("echo2") && !list.has("Mail.send"));
        assert_eq!(AllowList::of(Vec::new()).unwrap(), None);
        assert_eq!(AllowList::of(vec!["a".into(), "[".into()]).unwrap_err().0, 1);
    }
}
