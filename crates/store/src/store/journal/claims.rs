//! New calls that workers claim in the commit that accepts them.

use std::fmt::Debug;

use uuid::Uuid;

use crate::store::workers::Offer;

/// Chooses workers for the new calls of a commit.
pub trait ClaimAssigner: Debug + Send + Sync {
    /// Chooses workers that wait for calls, just before a commit that accepts these calls. Returns the claims, which become
    /// part of the commit. A call without a worker has none.
    ///
    /// If the database rejects the commit, it is repeated with fewer calls. A call keeps its worker then.
    fn assign(&self, accepted: &[Uuid]) -> Vec<Offer>;
}
