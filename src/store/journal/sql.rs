//! The statements of a commit, in the parts that both databases share.

/// Columns of a new call's row, in the order in which they are bound.
pub(super) const ROW: &str = "id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos, \
     started_pos, settled_pos, arguments, record";

/// What a later change of a call replaces, from a list `u` of such changes. A row that has ended, or belongs to a later
/// attempt or to another node, or has these events already, is left alone, and then counts as not written. The rows are found by key: `+ 0` keeps the databases from
/// going through the index of calls under way instead, which is full of dead entries.
pub(super) const ROW_AGAIN: &str = "UPDATE tool_calls AS c SET status = u.status, attempt = u.attempt, seq = u.seq, \
     started_pos = COALESCE(c.started_pos, u.started), settled_pos = u.settled, record = u.record \
     FROM u WHERE c.id = u.id AND c.status + 0 < 2 AND c.attempt <= u.attempt AND c.seq < u.seq AND c.node = u.node";

/// The same where arguments are replaced too, which few changes do: another column costs.
pub(super) fn row_again_with_arguments() -> String {
    ROW_AGAIN.replacen("SET ", "SET arguments = COALESCE(u.arguments, c.arguments), ", 1)
}

/// Columns of a reported event.
pub(super) const EVENT: &str = "call_id, seq, pos, kind, data";

/// Columns of an idempotency key that is taken.
pub(super) const CLAIM: &str = "tenant, key, fingerprint, batch_id, calls, expires_at";

/// A key whose time is over may be taken again; any other is left alone, and then counts as not written. `{NOW}` is the
/// time.
pub(super) const CLAIM_AGAIN: &str = "ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, \
     batch_id = excluded.batch_id, calls = excluded.calls, expires_at = excluded.expires_at \
     WHERE k.expires_at <= {NOW}";

/// Columns of a commit.
pub(super) const COMMIT: &str = "id, first_pos, last_pos, at, calls, stats";

/// Whether a commit whose end is unknown was made after all, behind a position that was known before it: its first
/// position.
pub(super) const FIND_COMMIT: &str = "SELECT first_pos FROM commits WHERE last_pos > $1 AND id = $2";
