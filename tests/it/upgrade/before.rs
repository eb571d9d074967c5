//! What nodes of earlier versions write, as text. These statements belong to versions that are out: a change of the schema
//! under which they fail is one that breaks nodes which still run.

use serde_json::{Value, json};
use toolpost::domain::Once;

use crate::support::Backend;

/// When all of it happened.
const AT: i64 = 1_700_000_000_000_000;

/// How a version counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// In the sums themselves: until 0008.
    AtOnce,
    /// In a note beside the commit, which is added later: since 0011.
    ByNotes,
}

/// A node of an earlier version.
pub struct Old {
    pub backend: Backend,
}

const ROW: &str = "id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos, \
     started_pos, settled_pos, arguments, record";
const ROW_AGAIN: &str = "UPDATE tool_calls AS c SET status = u.status, attempt = u.attempt, seq = u.seq, \
     started_pos = COALESCE(c.started_pos, u.started), settled_pos = u.settled, record = u.record \
     FROM u WHERE c.id = u.id AND c.status + 0 < 2 AND c.attempt <= u.attempt AND c.seq < u.seq AND c.node = u.node";
const STATS: &str = "tenant, tool, minute, executed, code, bucket, calls, total_ms, min_ms, max_ms, retries, last_at";
const STATS_AGAIN: &str = "ON CONFLICT (tenant, tool, minute, executed, code, bucket) DO UPDATE SET \
     calls = s.calls + excluded.calls, total_ms = s.total_ms + excluded.total_ms, \
     min_ms = {MIN}(s.min_ms, excluded.min_ms), max_ms = {MAX}(s.max_ms, excluded.max_ms), \
     retries = s.retries + excluded.retries, last_at = {MAX}(s.last_at, excluded.last_at)";

impl Old {
    /// The id of its nth call.
    pub fn id(&self, number: u128) -> String {
        uuid::Uuid::from_u128((0x018b_cfe5_6800 << 80) | (0x7 << 76) | (0x2 << 62) | number).to_string()
    }

    fn uuid(&self, number: u128) -> String {
        self.uuid_of(&self.id(number))
    }

    fn uuid_of(&self, text: &str) -> String {
        match self.backend {
            Backend::Sqlite => format!("X'{}'", text.replace('-', "")),
            Backend::Postgres => format!("'{text}'::uuid"),
        }
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self.backend {
            Backend::Sqlite => format!("X'{hex}'"),
            Backend::Postgres => format!("'\\x{hex}'::bytea"),
        }
    }

    fn ids_in_a_row(&self, number: u128) -> String {
        self.bytes(uuid::Uuid::parse_str(&self.id(number)).unwrap().as_bytes())
    }

    /// The last statement of a commit: whose call it was, and what it has counted.
    fn commit(&self, number: u128, positions: i64, note: Option<&str>) -> String {
        let calls = self.ids_in_a_row(number);
        let id = self.uuid(number * 100 + u128::from(positions.unsigned_abs()) + 1_000_000);
        match note {
            None => format!(
                "INSERT INTO commits (id, first_pos, last_pos, at, calls) \
                 SELECT {id}, pos - {positions} + 1, pos, {AT}, {calls} FROM event_clock;"
            ),
            Some(note) => format!(
                "INSERT INTO commits (id, first_pos, last_pos, at, calls, stats) \
                 SELECT {id}, pos - {positions} + 1, pos, {AT}, {calls}, '{note}' FROM event_clock;"
            ),
        }
    }

    fn counted(&self, counting: Counting, number: u128, positions: i64) -> String {
        let minute = AT / 60_000_000;
        if counting == Counting::ByNotes {
            let note = format!(
                r#"[[{{"o":"default","n":"echo","m":{minute},"x":true,"c":"","b":7}},{{"k":1,"t":7,"l":7,"h":7,"r":0,"a":{AT}}}]]"#
            );
            return self.commit(number, positions, Some(&note));
        }
        let (min, max) = if self.backend == Backend::Sqlite { ("MIN", "MAX") } else { ("LEAST", "GREATEST") };
        let again = STATS_AGAIN.replace("{MIN}", min).replace("{MAX}", max);
        let rows = [0, minute].map(|minute| format!("('default', 'echo', {minute}, 1, '', 7, 1, 7, 7, 7, 0, {AT})"));
        let sums = format!("INSERT INTO tool_stats AS s ({STATS}) VALUES {} {again};", rows.join(", "));
        sums + &self.commit(number, positions, None)
    }

    fn record(number: u128, ended: bool) -> String {
        let mut record = json!({"call_id": format!("call_{number}"), "started_at": AT});
        if ended {
            record["ended_at"] = json!(AT + 7_000);
            record["outcome"] = json!({"output": format!("kept {number}")});
            if number == 1 {
                record["callback_url"] = json!("http://127.0.0.1:9/");
            }
        }
        record.to_string()
    }

    /// A call that is recorded when it has ended.
    pub fn whole_call(&self, number: u128, counting: Counting) -> String {
        let (id, record) = (self.uuid(number), Self::record(number, true));
        format!(
            "UPDATE event_clock SET pos = pos + 5 WHERE one = 1; \
             INSERT INTO tool_calls ({ROW}) SELECT {id}, 'default', NULL, NULL, 'echo', 2, 1, 5, 'cli-old', {AT}, \
             pos - 4, pos - 2, pos - 1, '{{\"n\":{number}}}', '{record}' FROM event_clock; "
        ) + &self.counted(counting, number, 5)
    }

    /// A call that is accepted first.
    pub fn accepted(&self, number: u128) -> String {
        let (id, record) = (self.uuid(number), Self::record(number, false));
        format!(
            "UPDATE event_clock SET pos = pos + 2 WHERE one = 1; \
             INSERT INTO tool_calls ({ROW}) SELECT {id}, 'default', NULL, NULL, 'echo', 0, 0, 2, 'cli-old', {AT}, \
             pos - 1, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), '{{\"n\":{number}}}', '{record}' FROM event_clock; "
        ) + &self.commit(number, 2, None)
    }

    fn changed(&self, number: u128, status: i16, seq: i32, started: &str, settled: &str) -> String {
        let (id, record) = (self.uuid(number), Self::record(number, status > 1));
        format!(
            "WITH u (id, status, attempt, seq, node, started, settled, record) AS (SELECT {id}, CAST({status} AS SMALLINT), \
             1, {seq}, 'cli-old', CAST({started} AS BIGINT), CAST({settled} AS BIGINT), '{record}' FROM event_clock) {ROW_AGAIN}; "
        )
    }

    /// It starts, and its tool reports.
    pub fn started_with_a_report(&self, number: u128) -> String {
        let id = self.uuid(number);
        let data = json!({"id": self.id(number), "call_id": format!("call_{number}"), "name": "echo", "status": "DOING",
            "phase": "running", "tip": "half"});
        "UPDATE event_clock SET pos = pos + 2 WHERE one = 1; ".to_owned()
            + &self.changed(number, 1, 4, "pos - 1", "NULL")
            + &format!(
                "INSERT INTO call_events (call_id, seq, pos, kind, data) \
                 SELECT {id}, 4, pos, 'status', '{data}' FROM event_clock; "
            )
            + &self.commit(number, 2, None)
    }

    /// It ends.
    pub fn settled(&self, number: u128, counting: Counting) -> String {
        "UPDATE event_clock SET pos = pos + 2 WHERE one = 1; ".to_owned()
            + &self.changed(number, 2, 6, "NULL", "pos - 1")
            + &self.counted(counting, number, 2)
    }

    /// It says that it lives.
    pub fn beats(&self) -> String {
        "INSERT INTO nodes AS n (node, beat) VALUES ('cli-old', 1) ON CONFLICT (node) DO UPDATE SET beat = n.beat + 1"
            .to_owned()
    }

    /// The request whose key is taken.
    pub fn keyed_body() -> Value {
        json!({"name": "echo", "arguments": {"n": 1}})
    }

    /// Something of everything that the fourth version knows.
    pub fn everything(&self) -> String {
        let once = Once::of_request("old key", &Self::keyed_body());
        let later = 4_102_444_800_000_000_i64;
        let definition = json!({"name": "kept_tool", "description": "Kept.", "input_schema": {"type": "object"},
            "executor": {"type": "builtin", "name": "echo"}});
        let others = format!(
            "INSERT INTO idempotency_keys AS k (tenant, key, fingerprint, batch_id, calls, expires_at) \
             VALUES ('default', {}, {}, NULL, {}, {later}) ON CONFLICT (tenant, key) DO NOTHING; \
             INSERT INTO callbacks (call_id, url, host, event_id) VALUES ({call}, 'http://127.0.0.1:9/', '127.0.0.1:9', {}); \
             UPDATE callbacks SET state = 1, next_at = NULL, leased_until = NULL, last_status = 200, last_error = NULL, \
             delivered_at = {AT} WHERE call_id = {call} AND state <> 1; \
             INSERT INTO tools (tenant, name, definition, revision, created_at, updated_at) \
             VALUES ('default', 'kept_tool', '{definition}', 1, {AT}, {AT}); \
             UPDATE tools_clock SET version = version + 1 WHERE one = 1; ",
            self.bytes(&once.key),
            self.bytes(&once.fingerprint),
            self.ids_in_a_row(1),
            self.uuid(900),
            call = self.uuid(1),
        );
        [
            self.whole_call(1, Counting::AtOnce),
            self.accepted(2),
            self.started_with_a_report(2),
            self.settled(2, Counting::AtOnce),
            others,
            self.beats(),
        ]
        .concat()
    }
}
