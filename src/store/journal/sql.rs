//! Parts of the commit statements that both databases share.

/// Columns of a new call's row, in binding order.
pub(super) const ROW_COLUMNS: &str = "id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos, \
     started_pos, settled_pos, arguments, record, code, slow";

/// Updates stored calls from a list `u` of changes. The fence skips a row that has ended, belongs to a later attempt or
/// to another node, or already has these events; a skipped row does not count as written. `+ 0` makes the databases
/// find rows by primary key instead of the index of unfinished calls, which is full of dead entries.
pub(super) const UPDATE_ROWS: &str = "UPDATE tool_calls AS c SET status = u.status, attempt = u.attempt, seq = u.seq, \
     started_pos = COALESCE(c.started_pos, u.started), settled_pos = u.settled, record = u.record, \
     code = u.code, slow = u.slow \
     FROM u WHERE c.id = u.id AND c.status + 0 < 2 AND c.attempt <= u.attempt AND c.seq < u.seq AND c.node = u.node";

/// Returns [`UPDATE_ROWS`] extended by the arguments. It is a separate statement because few changes replace arguments,
/// and each column has a cost.
pub(super) fn update_rows_with_arguments() -> String {
    UPDATE_ROWS.replacen("SET ", "SET arguments = COALESCE(u.arguments, c.arguments), ", 1)
}

/// Columns of a reported event.
pub(super) const EVENT_COLUMNS: &str = "call_id, seq, pos, kind, data";

/// Columns of a claimed idempotency key.
pub(super) const CLAIM_COLUMNS: &str = "tenant, key, fingerprint, batch_id, calls, expires_at";

/// Replaces an expired key. An unexpired key is left unchanged and does not count as written. `{NOW}` is the current
/// time.
pub(super) const REPLACE_EXPIRED_CLAIM: &str = "ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, \
     batch_id = excluded.batch_id, calls = excluded.calls, expires_at = excluded.expires_at \
     WHERE k.expires_at <= {NOW}";

/// Columns of a commit.
pub(super) const COMMIT_COLUMNS: &str = "id, first_pos, last_pos, at, calls, stats";

/// Finds a commit whose result is unknown, behind a position that was known before it and within its shard. Returns its
/// first position.
pub(super) const FIND_COMMIT: &str = "SELECT first_pos FROM commits WHERE last_pos > $1 AND last_pos <= $2 AND id = $3";
