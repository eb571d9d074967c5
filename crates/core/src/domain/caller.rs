//! The identity and permissions of a caller: tenant, scopes and permitted tools.

use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Tenant, glob};

/// Maximum number of globs in an allow list.
const MAX_GLOBS: usize = 256;

/// A permission of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Call tools, and follow these calls and their sessions.
    Call,
    /// Read calls, events, sessions and statistics.
    Read,
    /// Register and change tools, their groups and presets.
    Tools,
    /// Read pending approvals, and decide them.
    Approve,
    /// Fetch the calls of `worker` tools.
    Work,
    /// All permissions, including keys and hooks.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 6] = [Self::Call, Self::Read, Self::Tools, Self::Approve, Self::Work, Self::Admin];

    /// Returns the name of the scope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
            Self::Tools => "tools",
            Self::Approve => "approve",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// Returns the scope with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The set of scopes of a caller.
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

    /// Returns `true` if the set contains one of `any` or `admin`, which implies all scopes.
    #[must_use]
    pub fn allow(self, any: Self) -> bool {
        self.has(Scope::Admin) || self.0 & any.0 != 0
    }

    /// Returns `true` if `others` grants all scopes of this set.
    #[must_use]
    pub fn are_within(self, others: Self) -> bool {
        others.has(Scope::Admin) || self.0 & !others.0 == 0
    }

    fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Iterates over the scopes.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Returns the names separated by spaces, as in OAuth 2.0 (RFC 6749, section 3.3).
    #[must_use]
    pub fn to_text(self) -> String {
        self.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Parses names separated by spaces. Unknown names are ignored.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        text.split_ascii_whitespace().filter_map(Scope::named).collect()
    }
}

impl Serialize for Scopes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Scope>::deserialize(deserializer).map(|scopes| scopes.into_iter().collect())
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | 1 << scope as u8))
    }
}

/// The tools that a caller may use, as globs over tool names.
#[derive(Debug, Clone)]
pub struct AllowList {
    globs: Vec<String>,
    set: GlobSet,
}

impl PartialEq for AllowList {
    fn eq(&self, other: &Self) -> bool {
        self.globs == other.globs
    }
}

impl AllowList {
    /// Compiles the globs. Returns `None` for an empty list, which restricts nothing.
    ///
    /// # Errors
    /// Returns the index of the first invalid glob and the reason.
    pub fn of(globs: Vec<String>) -> Result<Option<Self>, (usize, String)> {
        if globs.is_empty() {
            return Ok(None);
        }
        if globs.len() > MAX_GLOBS {
            return Err((MAX_GLOBS, format!("at most {MAX_GLOBS} globs are allowed")));
        }
        let mut builder = GlobSetBuilder::new();
        for (index, text) in globs.iter().enumerate() {
            builder.add(glob(text).map_err(|fault| (index, fault))?);
        }
        let set = builder.build().map_err(|error| (0, error.kind().to_string()))?;
        Ok(Some(Self { globs, set }))
    }

    /// Returns `true` if a glob matches the name of the tool.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.set.is_match(tool)
    }

    /// Returns the globs as given.
    #[must_use]
    pub fn globs(&self) -> &[String] {
        &self.globs
    }
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// The tenant whose resources the caller reads and creates.
    pub tenant: Tenant,
    /// The permissions.
    pub scopes: Scopes,
    /// The tools that the caller may use; `None` for all tools of the tenant.
    pub tools: Option<Arc<AllowList>>,
    /// The queues whose calls the caller may fetch; `None` for all queues of the tenant.
    pub queues: Option<Arc<AllowList>>,
    /// The API key, if the caller authenticated with a key.
    pub key: Option<Uuid>,
    /// Who the caller is; `None` on a service without authentication.
    pub identity: Option<Arc<Identity>>,
}

/// The maker of a call, as it is stored with the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The id of the key, or the subject of the token.
    pub subject: Arc<str>,
    /// The API key, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Uuid>,
    /// The permissions.
    pub scopes: Scopes,
}

impl Caller {
    /// Returns the operator: the default tenant with all scopes.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            tenant: Tenant::default(),
            scopes: Scope::ALL.into_iter().collect(),
            queues: None,
            tools: None,
            key: None,
            identity: None,
        }
    }

    /// Returns `true` if the caller may use a tool of this name.
    #[must_use]
    pub fn may_have(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.has(tool))
    }

    /// Returns `true` if the caller may fetch the calls of this queue.
    #[must_use]
    pub fn may_fetch(&self, queue: &str) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.has(queue))
    }
}

/// Settings of tokens of an external issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// Required `iss`; empty to accept only keys.
    pub issuer: String,
    /// Audience that `aud` must equal or contain.
    pub audience: String,
    /// URL of the issuer's public keys.
    pub jwks_url: String,
    /// Accepted signature algorithms.
    pub algorithms: Vec<String>,
    /// Claim that names the tenant; empty if all tokens belong to the default tenant.
    pub tenant_claim: String,
    /// Claim that lists the scopes.
    pub scope_claim: String,
    /// Maximum clock difference, in seconds.
    pub leeway_s: u64,
    /// Maximum number of requests per minute for each subject; 0 disables the limit.
    pub rate: u32,
    /// Maximum number of concurrent requests for each subject; 0 disables the limit.
    pub concurrency: u32,
    /// Claim whose value overrides `rate`; empty to disable overrides.
    pub rate_claim: String,
    /// Claim whose value overrides `concurrency`; empty to disable overrides.
    pub concurrency_claim: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_implies_every_scope() {
        let reader = Scopes::of_text("read openid call");
        assert_eq!(reader.to_text(), "call read");
        assert!(reader.allow(Scopes::of([Scope::Tools, Scope::Read])) && !reader.allow(Scopes::of([Scope::Tools])));
        let admin = Scopes::of_text("admin");
        assert!(admin.allow(Scopes::of([Scope::Tools])) && reader.are_within(admin) && !admin.are_within(reader));
        assert!(!Scopes::default().allow(Scopes::of(Scope::ALL)));
    }

    #[test]
    fn allow_list_matches_globs_and_empty_list_restricts_nothing() {
        let list = AllowList::of(vec!["mail.*".into(), "echo".into()]).unwrap().unwrap();
        assert!(list.has("mail.send") && list.has("echo") && !list.has("echo2") && !list.has("Mail.send"));
        assert_eq!(AllowList::of(Vec::new()).unwrap(), None);
        assert_eq!(AllowList::of(vec!["a".into(), "[".into()]).unwrap_err().0, 1);
    }
}
