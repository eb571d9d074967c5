-- The schema of Toolpost on PostgreSQL.
--
-- Times are microseconds since 1970-01-01T00:00:00Z unless a column says otherwise. JSON is stored as text, as jsonb
-- rejects U+0000. Both databases have the same tables and columns.
--
-- A table whose key begins with `shard` can be distributed by it: see docs/operations/scale.md. Each statement of a commit
-- names the shard, so that it touches one.


-- ---------------------------------------------------------------------------------------------------------------------
-- Calls
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per range of ids, by the milliseconds with which ids begin. Each table that is partitioned by ids has a partition for
-- it, whose name ends with the first millisecond. The ranges do not overlap.
CREATE TABLE call_partitions (
    from_ms  BIGINT NOT NULL PRIMARY KEY,
    until_ms BIGINT NOT NULL
);

-- One row per call.
CREATE TABLE tool_calls (
    shard        SMALLINT NOT NULL,           -- the last 12 bits of the id
    id           UUID     NOT NULL,
    tenant       TEXT     NOT NULL,
    session      TEXT,
    batch_id     UUID,
    tool         TEXT     NOT NULL,           -- the requested name, cut to the length that an index accepts
    status       SMALLINT NOT NULL,           -- 0 WAIT, 1 DOING, 2 SUCCESS, 3 ERROR
    attempt      INTEGER  NOT NULL,           -- fences writes: the row of a later attempt rejects those of earlier ones
    node         TEXT     NOT NULL,
    created_at   BIGINT   NOT NULL,
    accepted_pos BIGINT   NOT NULL,           -- accepted, started, settled: position of the first event of each transition
    started_pos  BIGINT,
    settled_pos  BIGINT,
    arguments    TEXT     NOT NULL,           -- JSON
    record       TEXT     NOT NULL,           -- JSON: every other field of the call
    seq          INTEGER  NOT NULL DEFAULT 0, -- number of the call's last event
    code         SMALLINT,                    -- of a failed call: the number of its error code
    slow         SMALLINT,                    -- of an ended call that took a millisecond or more: its class of durations
    parent       UUID,                        -- the call that made this call
    ended_late   BIGINT,                      -- end of a call that ended more than an hour after its creation
    PRIMARY KEY (shard, id)
) PARTITION BY RANGE (id);
CREATE INDEX tool_calls_by_session ON tool_calls (tenant, session, id) WHERE session IS NOT NULL;
CREATE INDEX tool_calls_by_batch ON tool_calls (batch_id) WHERE batch_id IS NOT NULL;
-- Every filter of the history has an index in the order of ids, which begin with the time of creation.
CREATE INDEX tool_calls_by_tenant ON tool_calls (tenant, id);
CREATE INDEX tool_calls_by_tool ON tool_calls (tenant, tool, id);
CREATE INDEX tool_calls_by_code ON tool_calls (tenant, code, id) WHERE code IS NOT NULL;
CREATE INDEX tool_calls_by_duration ON tool_calls (tenant, slow, id) WHERE slow IS NOT NULL;
CREATE INDEX tool_calls_by_parent ON tool_calls (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX tool_calls_ended_late ON tool_calls (id) WHERE ended_late IS NOT NULL;
-- Unfinished and failed calls. A successful call has no entry, so that it costs nothing.
CREATE INDEX tool_calls_not_well ON tool_calls (status, id) WHERE status <> 2;

-- One row per word, and per group of calls with the word that ended together and were made within half a minute. Filled
-- after the commits. A period is about 37 hours; retention deletes whole periods.
CREATE TABLE call_words (
    period INTEGER NOT NULL,
    word   BIGINT  NOT NULL,  -- hash of tenant and word
    newest UUID    NOT NULL,  -- the newest call
    calls  BYTEA,             -- the other calls: ids, 16 bytes each; NULL if there are none
    PRIMARY KEY (period, word, newest)
) PARTITION BY RANGE (newest);

-- One row per shard: up to which position the words of calls are indexed, and which node does it.
CREATE TABLE words_indexed (
    shard        SMALLINT NOT NULL PRIMARY KEY,
    pos          BIGINT   NOT NULL,
    node         TEXT     NOT NULL,
    leased_until BIGINT   NOT NULL
) WITH (fillfactor = 10);
INSERT INTO words_indexed (shard, pos, node, leased_until) VALUES (0, 0, '', 0);

-- One row per event that cannot be derived from the call's row: what a running tool reported.
CREATE TABLE call_events (
    shard   SMALLINT NOT NULL,
    call_id UUID     NOT NULL,
    seq     INTEGER  NOT NULL,
    pos     BIGINT   NOT NULL,
    kind    TEXT     NOT NULL,
    data    TEXT     NOT NULL,  -- JSON
    PRIMARY KEY (shard, call_id, seq)
) PARTITION BY RANGE (call_id);

-- One row per commit of the journal: its positions and its calls.
CREATE TABLE commits (
    shard     SMALLINT NOT NULL,
    id        UUID     NOT NULL,
    first_pos BIGINT   NOT NULL,
    last_pos  BIGINT   NOT NULL,  -- unique, as the clock of the shard only moves forward
    at        BIGINT   NOT NULL,
    calls     BYTEA    NOT NULL,  -- ids, 16 bytes each
    stats     TEXT                -- JSON: what the commit adds to `tool_stats` later; NULL if no call ended
) PARTITION BY RANGE (id);
CREATE INDEX commits_by_position ON commits (shard, last_pos);

-- One row per shard: its last position, which names the shard in its upper bits. The lock on the row serializes the commits of the
-- shard, so the order of its positions is the order of its commits. The table has no CHECK, which would be parsed again for every
-- statement.
CREATE TABLE event_clock (
    shard SMALLINT NOT NULL PRIMARY KEY,
    pos   BIGINT   NOT NULL
) WITH (fillfactor = 10);  -- a row that changes all the time stays on its page
INSERT INTO event_clock (shard, pos) VALUES (0, 0);

-- One row per shard: the node that alone writes new calls to it, so that nodes do not wait for each other.
CREATE TABLE shard_owners (
    shard SMALLINT NOT NULL PRIMARY KEY,
    node  TEXT
);
INSERT INTO shard_owners (shard, node) VALUES (0, NULL);

-- One row per idempotency key. Key and fingerprint are stored as SHA-256 only, as the key may be secret.
CREATE TABLE idempotency_keys (
    tenant      TEXT   NOT NULL,
    key         BYTEA  NOT NULL,
    fingerprint BYTEA  NOT NULL,
    batch_id    UUID,
    calls       BYTEA  NOT NULL,  -- ids, 16 bytes each
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_keys_by_end ON idempotency_keys (expires_at);

-- One row per control message for a call of another node: a cancellation, a report, a result, or a chunk of arguments,
-- which its answer replaces.
CREATE TABLE inbox (
    shard   SMALLINT NOT NULL,  -- of the call
    id      UUID     NOT NULL,
    call_id UUID     NOT NULL,
    kind    TEXT     NOT NULL,
    body    TEXT     NOT NULL,
    PRIMARY KEY (shard, id)
);
CREATE INDEX inbox_by_id ON inbox (id);
CREATE INDEX inbox_by_call ON inbox (shard, call_id);
-- The first result wins, whichever node received it.
CREATE UNIQUE INDEX inbox_one_result ON inbox (shard, call_id) WHERE kind = 'result';

-- One row per call that waits, or has waited, for the decision of a person.
CREATE TABLE approvals (
    shard     SMALLINT NOT NULL,
    call_id   UUID     NOT NULL,
    tenant    TEXT     NOT NULL,
    tool      TEXT     NOT NULL,
    session   TEXT,
    status    SMALLINT NOT NULL,  -- 0 pending, 1 approved, 2 rejected, 3 expired, 4 void because the call has ended
    state     TEXT     NOT NULL,  -- JSON: the approval, which a decision compares and replaces
    arguments TEXT,               -- JSON: the arguments of an approver; NULL if nobody changed them
    PRIMARY KEY (shard, call_id)
) PARTITION BY RANGE (call_id);
CREATE INDEX approvals_by_status ON approvals (tenant, status, call_id);

-- One row per digest whose calls are approved for the rest of a session.
CREATE TABLE remembered_approvals (
    tenant     TEXT   NOT NULL,
    session    TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,  -- of the session: a later session of the same id remembers nothing
    state      TEXT   NOT NULL,  -- JSON: the decision
    PRIMARY KEY (tenant, session, digest)
);

-- One row per call of a `worker` tool that waits for a worker, or that a worker has. It is deleted when the call ends.
CREATE TABLE worker_calls (
    call_id     UUID     NOT NULL PRIMARY KEY,
    tenant      TEXT     NOT NULL,
    queue       TEXT     NOT NULL,
    tool        TEXT     NOT NULL,
    priority    INTEGER  NOT NULL,
    attempt     INTEGER  NOT NULL,  -- the attempt that is offered, or that the worker runs; fences results
    state       SMALLINT NOT NULL,  -- 0 waiting, 1 claimed, 2 answered
    node        TEXT     NOT NULL,  -- the node that owns the call
    offered_at  BIGINT   NOT NULL,  -- all times: milliseconds since 1970, by the clock of the database
    lease_ms    BIGINT   NOT NULL,
    worker      TEXT,
    claimed_at  BIGINT,
    lease_until BIGINT
);
CREATE INDEX worker_calls_by_queue ON worker_calls (tenant, queue, state, priority DESC, call_id);

-- One row per worker and queue.
CREATE TABLE workers (
    tenant       TEXT   NOT NULL,
    queue        TEXT   NOT NULL,
    worker       TEXT   NOT NULL,
    sdk          TEXT,             -- the `User-Agent` of its last claim
    last_seen_at BIGINT NOT NULL,  -- milliseconds since 1970, by the clock of the database
    PRIMARY KEY (tenant, queue, worker)
);

-- One row per tool that a worker has registered.
CREATE TABLE worker_tools (
    tenant TEXT NOT NULL,
    queue  TEXT NOT NULL,
    worker TEXT NOT NULL,
    tool   TEXT NOT NULL,
    PRIMARY KEY (tenant, queue, worker, tool)
);
CREATE INDEX worker_tools_by_tool ON worker_tools (tenant, tool);

-- One row per call whose end is sent to a callback URL, and per notification about an approval until it is sent.
CREATE TABLE callbacks (
    shard        SMALLINT NOT NULL,
    call_id      UUID     NOT NULL,
    url          TEXT     NOT NULL,
    host         TEXT     NOT NULL,            -- host and port of the URL: a slow host must not delay the others
    event_id     UUID     NOT NULL,            -- the same for every attempt
    state        SMALLINT NOT NULL DEFAULT 0,  -- 0 pending, 1 delivered, 2 failed
    attempts     INTEGER  NOT NULL DEFAULT 0,  -- attempts started; fences the results of earlier ones
    next_at      BIGINT,                       -- of a pending callback; NULL until its first attempt has failed
    leased_until BIGINT,                       -- a node is making an attempt until then
    last_status  SMALLINT,
    last_error   TEXT,
    delivered_at BIGINT,
    lost         INTEGER  NOT NULL DEFAULT 0,  -- attempts whose end was never recorded; they use up no step of the schedule
    body         TEXT,                     -- JSON: what is sent instead of the call, for a notification, whose `call_id` is its own
    PRIMARY KEY (shard, call_id)
) PARTITION BY RANGE (call_id);
-- In the order in which they are claimed.
CREATE INDEX callbacks_pending ON callbacks (next_at NULLS FIRST, call_id) WHERE state = 0;

-- One row per shard: up to which position the history was deleted because of its age.
CREATE TABLE retention (
    shard      SMALLINT NOT NULL PRIMARY KEY,
    calls_pos  BIGINT   NOT NULL,  -- calls that ended up to here, and commits
    events_pos BIGINT   NOT NULL   -- reported events of such calls
) WITH (fillfactor = 10);
INSERT INTO retention (shard, calls_pos, events_pos) VALUES (0, 0, 0);


-- ---------------------------------------------------------------------------------------------------------------------
-- Statistics
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per tool, minute, error code and bucket of the histogram of durations; minute 0 is the total.
CREATE TABLE tool_stats (
    tenant   TEXT     NOT NULL,
    tool     TEXT     NOT NULL,
    minute   BIGINT   NOT NULL,
    executed SMALLINT NOT NULL,
    code     TEXT     NOT NULL,
    bucket   INTEGER  NOT NULL,
    calls    BIGINT   NOT NULL,
    total_ms BIGINT   NOT NULL,
    min_ms   BIGINT   NOT NULL,
    max_ms   BIGINT   NOT NULL,
    retries  BIGINT   NOT NULL,
    last_at  BIGINT   NOT NULL,
    PRIMARY KEY (tenant, tool, minute, executed, code, bucket)
) WITH (fillfactor = 50);

-- One row per shard: up to which position `commits.stats` is included in `tool_stats`.
CREATE TABLE stats_folded (
    shard SMALLINT NOT NULL PRIMARY KEY,
    pos   BIGINT   NOT NULL
) WITH (fillfactor = 10);
INSERT INTO stats_folded (shard, pos) VALUES (0, 0);


-- ---------------------------------------------------------------------------------------------------------------------
-- Tools
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per tool that was registered over the API.
CREATE TABLE tools (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    definition TEXT   NOT NULL,  -- JSON
    checked    TEXT,             -- mark of the check that this text has passed; NULL if it is checked when it is loaded
    revision   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row per group of tools, which are switched together.
CREATE TABLE tool_groups (
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    description TEXT    NOT NULL,
    active      BOOLEAN NOT NULL,  -- its tools can be called
    manageable  BOOLEAN NOT NULL,  -- a model may switch it in its own session
    created_at  BIGINT  NOT NULL,
    updated_at  BIGINT  NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row per preset argument that was set over the API; it takes precedence over the tool's definition.
CREATE TABLE tool_presets (
    tenant      TEXT     NOT NULL,
    tool        TEXT     NOT NULL,
    name        TEXT     NOT NULL,            -- the argument
    overridable SMALLINT NOT NULL DEFAULT 0,
    secret      TEXT,                         -- the name of a secret, never its value
    key_id      TEXT,                         -- the key that decrypts `sealed`
    sealed      BYTEA,                        -- nonce, ciphertext and tag; NULL like `secret` for a removed preset
    revision    BIGINT   NOT NULL DEFAULT 1,  -- incremented by every change, also by the removal
    updated_at  BIGINT   NOT NULL,
    PRIMARY KEY (tenant, tool, name)
);

-- One row per hook that was registered over the API.
CREATE TABLE hooks (
    tenant     TEXT   NOT NULL,
    id         UUID   NOT NULL,
    definition TEXT   NOT NULL,  -- JSON, without the secret
    secret     TEXT,             -- signs its requests; NULL for the secret of the service
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- One row per policy that was stored over the API.
CREATE TABLE policies (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    definition TEXT   NOT NULL,  -- JSON
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row per budget.
CREATE TABLE budgets (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    id         UUID   NOT NULL UNIQUE,     -- names its use and its allotments
    definition TEXT   NOT NULL,            -- JSON
    grants     BIGINT NOT NULL DEFAULT 0,  -- incremented by each grant, so that one follows the other
    wanted     BIGINT NOT NULL DEFAULT 0,  -- incremented by a node that asks the others for what they do not need
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row per node and budget: the part of the budget that the node may use for calls.
CREATE TABLE budget_allotments (
    budget  UUID     NOT NULL,
    id      UUID     NOT NULL,
    node    TEXT     NOT NULL,            -- empty for an allotment that its node has given up
    calls   BIGINT   NOT NULL,            -- what ended calls have not used yet
    cost    BIGINT   NOT NULL,            -- in billionths
    is_lean SMALLINT NOT NULL DEFAULT 0,  -- 1: the node holds only what its calls need
    PRIMARY KEY (budget, id)
);

-- One row per step of a window in which calls have ended.
CREATE TABLE budget_use (
    budget UUID   NOT NULL,
    at     BIGINT NOT NULL,  -- the end of the step
    calls  BIGINT NOT NULL,
    cost   BIGINT NOT NULL,  -- in billionths
    PRIMARY KEY (budget, at)
);

-- One row per upstream MCP server that was registered over the API.
CREATE TABLE upstreams (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    definition TEXT   NOT NULL,  -- JSON, without address and headers, which may contain secrets
    key_id     TEXT   NOT NULL,  -- the key that decrypts `sealed`
    sealed     BYTEA  NOT NULL,  -- address and headers: nonce, ciphertext and tag
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row per tool of an upstream server whose definition is pinned.
CREATE TABLE upstream_pins (
    tenant     TEXT   NOT NULL,
    upstream   TEXT   NOT NULL,  -- the server's name, wherever it is declared
    tool       TEXT   NOT NULL,  -- the tool's name on that server
    hash       TEXT   NOT NULL,  -- SHA-256 of what models see of it, in hexadecimal digits
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, upstream, tool)
);

-- One row per tool that is paused after repeated timeouts. A row is valid until its end, and a resume deletes it.
CREATE TABLE tool_pauses (
    tenant       TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    paused_at    BIGINT  NOT NULL,
    paused_until BIGINT  NOT NULL,
    timeouts     INTEGER NOT NULL,  -- consecutive timeouts that caused the pause
    PRIMARY KEY (tenant, tool)
);

-- A single row: a version that moves with every change of a table of this section except `tool_pauses`, so that a node can check cheaply whether
-- it has to read them again.
CREATE TABLE tools_clock (
    one     SMALLINT NOT NULL PRIMARY KEY,
    version BIGINT   NOT NULL
);
INSERT INTO tools_clock (one, version) VALUES (1, 0);

-- One row per tenant: the version of `tools_clock` at its last change.
CREATE TABLE tenant_clocks (
    tenant  TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
CREATE INDEX tenant_clocks_by_version ON tenant_clocks (version);


-- ---------------------------------------------------------------------------------------------------------------------
-- Sessions
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per conversation.
CREATE TABLE sessions (
    tenant      TEXT     NOT NULL,
    id          TEXT     NOT NULL,
    state       SMALLINT NOT NULL,  -- 0 ACTIVE, 1 COMPLETED, 2 ABORTED
    parent      TEXT,
    parent_call UUID,               -- the call of the parent session that waits for the end of this one
    switched    TEXT     NOT NULL,  -- JSON: groups that this session has switched on or off
    completion  TEXT,               -- JSON: the outcome of its task
    doc         TEXT     NOT NULL,  -- JSON: every other field
    since       TEXT     NOT NULL,  -- a cursor: only later calls belong to it, not those of a deleted session with the same id
    created_at  BIGINT   NOT NULL,
    updated_at  BIGINT   NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX sessions_by_age ON sessions (tenant, created_at, id);
CREATE INDEX sessions_by_use ON sessions (updated_at);
CREATE INDEX sessions_by_parent ON sessions (tenant, parent) WHERE parent IS NOT NULL;


-- ---------------------------------------------------------------------------------------------------------------------
-- Callers
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per API key. Revoked keys stay: a service that has had a key never becomes open again on its own.
CREATE TABLE api_keys (
    id           UUID   NOT NULL PRIMARY KEY,
    tenant       TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    prefix       TEXT   NOT NULL,  -- the first characters of the key, to recognize it and to look it up
    hash         BYTEA  NOT NULL,  -- SHA-256 of the whole key
    scopes       TEXT   NOT NULL,  -- separated by spaces
    tools        TEXT   NOT NULL,  -- JSON: globs; an empty list allows every tool
    queues       TEXT   NOT NULL,  -- JSON: globs over the queues of a worker's key; an empty list allows every queue
    rate         BIGINT,           -- requests per minute; NULL for the default
    concurrency  BIGINT,           -- concurrent requests; NULL for the default
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT            -- written at most once per minute
);
CREATE INDEX api_keys_by_prefix ON api_keys (prefix);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, id);

-- A single row: a version that moves with every change of `api_keys`, so that a node can check cheaply whether its cache is
-- outdated.
CREATE TABLE keys_clock (
    one     SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT   NOT NULL
);
INSERT INTO keys_clock (one, version) VALUES (1, 0);

-- One row per ticket for an event stream, for clients that cannot send headers.
CREATE TABLE event_tickets (
    hash       BYTEA  NOT NULL PRIMARY KEY,  -- SHA-256 of the ticket
    tenant     TEXT   NOT NULL,
    path       TEXT   NOT NULL,              -- the path of the stream
    key_id     UUID,                         -- the key that requested it
    token      TEXT,                         -- JSON: the JWT that requested it; NULL like `key_id` on an open service
    used_at    BIGINT,                       -- its first use
    expires_at BIGINT NOT NULL
);
CREATE INDEX event_tickets_by_end ON event_tickets (expires_at);
CREATE INDEX event_tickets_by_tenant ON event_tickets (tenant);

-- One row per session of an MCP client before revision 2026-07-28, so that any node can serve it.
CREATE TABLE mcp_sessions (
    id      TEXT   NOT NULL PRIMARY KEY,
    tenant  TEXT   NOT NULL,
    key_id  UUID,             -- the key of its client; NULL for a JWT, and on an open service
    params  TEXT   NOT NULL,  -- JSON: the parameters of `initialize`
    used_at BIGINT NOT NULL   -- written rarely
);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (used_at);

-- One row per call whose stream an MCP client has resumed, so that the node of a broken stream does not cancel the call.
CREATE TABLE mcp_resumptions (
    call_id UUID   NOT NULL PRIMARY KEY,
    resumed BIGINT NOT NULL,  -- how often
    at      BIGINT NOT NULL   -- the last time
);
CREATE INDEX mcp_resumptions_by_age ON mcp_resumptions (at);


-- ---------------------------------------------------------------------------------------------------------------------
-- The service
-- ---------------------------------------------------------------------------------------------------------------------

-- One row per running node, with the lease of all its calls.
CREATE TABLE nodes (
    node     TEXT   NOT NULL PRIMARY KEY,
    beat     BIGINT NOT NULL,  -- changes with every heartbeat
    beat_at  BIGINT,           -- time of the last heartbeat by the clock of the database, in milliseconds
    lease_ms BIGINT            -- how long a heartbeat is valid; NULL for the default
);
-- The database stamps each heartbeat, so that the clocks of the nodes do not matter.
CREATE FUNCTION toolpost_stamp_beat() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.beat_at := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_stamped BEFORE INSERT OR UPDATE OF beat ON nodes
    FOR EACH ROW EXECUTE FUNCTION toolpost_stamp_beat();

-- One row per notice and node that has not processed it: about calls that are not stored yet, and about MCP sessions.
CREATE TABLE notices (
    node TEXT NOT NULL,
    id   UUID NOT NULL,
    body TEXT NOT NULL,  -- JSON
    PRIMARY KEY (node, id)
);
CREATE INDEX notices_by_id ON notices (id);

-- One row per value that the service creates once and keeps.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);


-- ---------------------------------------------------------------------------------------------------------------------
-- Commits
-- ---------------------------------------------------------------------------------------------------------------------

-- A commit is one call of a function with plain parameters, so that it takes one round trip, also if the tables are
-- distributed: the function then runs where its shard is.

-- Updates stored calls of a shard, and returns how many. The guards skip a call that has ended, belongs to a later attempt
-- or to another node, or already has these events.
--
-- An INSERT finds the rows by their keys and opens only their partitions, whatever statistics its plan was made with. An UPDATE
-- is planned once, perhaps while the partition is empty, and then reads the whole shard. Of a call that is not stored, the INSERT
-- leaves a row without a tool, which is not counted: the caller then fails, and the row is never visible.
CREATE FUNCTION journal_update(
    in_shard SMALLINT, in_node TEXT, base BIGINT, old_ids UUID[], old_numbers BIGINT[], old_arguments TEXT[], old_records TEXT[]
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    written BIGINT;
BEGIN
    WITH changed AS (
        INSERT INTO tool_calls AS c (shard, id, tenant, tool, status, attempt, seq, node, created_at, accepted_pos, started_pos,
            settled_pos, arguments, record, code, slow, ended_late)
        SELECT in_shard, id, '', '', old_numbers[k * 8 - 7], old_numbers[k * 8 - 6], old_numbers[k * 8 - 5], in_node, 0, 0,
            base + 1 + NULLIF(old_numbers[k * 8 - 4], -1), base + 1 + NULLIF(old_numbers[k * 8 - 3], -1),
            COALESCE(arguments, ''), record, NULLIF(old_numbers[k * 8 - 2], -1), NULLIF(old_numbers[k * 8 - 1], -1),
            NULLIF(old_numbers[k * 8], -1)
        FROM UNNEST(old_ids, old_arguments, old_records) WITH ORDINALITY AS o (id, arguments, record, k)
        ON CONFLICT (shard, id) DO UPDATE SET
            status = excluded.status, attempt = excluded.attempt, seq = excluded.seq,
            started_pos = COALESCE(c.started_pos, excluded.started_pos), settled_pos = excluded.settled_pos,
            code = excluded.code, slow = excluded.slow, ended_late = excluded.ended_late,
            arguments = COALESCE(NULLIF(excluded.arguments, ''), c.arguments), record = excluded.record
        WHERE c.status < 2 AND c.attempt <= excluded.attempt AND c.seq < excluded.seq AND c.node = excluded.node
        RETURNING tool)
    SELECT COUNT(*) INTO written FROM changed WHERE tool <> '';
    RETURN written;
END $$;

-- Writes one commit of a shard, and returns the position before its first event. A single tenant applies to all new calls.
-- A part without rows is NULL instead of arrays.
CREATE FUNCTION journal_commit(
    in_shard SMALLINT, in_positions BIGINT, in_node TEXT, in_commit UUID, in_at BIGINT, in_calls BYTEA, in_stats TEXT,
    -- New calls, with ten numbers each: status, attempt, seq, created_at, offsets of the three positions, code, slow, late end.
    -- -1 stands for NULL.
    new_ids UUID[], new_tenants TEXT[], new_sessions TEXT[], new_batches UUID[], new_tools TEXT[], new_numbers BIGINT[],
    new_arguments TEXT[], new_records TEXT[],
    -- Stored calls, with eight numbers each: status, attempt, seq, offsets of start and end, code, slow, late end. NULL keeps
    -- the arguments.
    old_ids UUID[], old_numbers BIGINT[], old_arguments TEXT[], old_records TEXT[],
    -- Reported events.
    event_calls UUID[], event_seqs INTEGER[], event_offsets INTEGER[], event_kinds TEXT[], event_data TEXT[],
    -- Callbacks.
    callback_calls UUID[], callback_urls TEXT[], callback_hosts TEXT[], callback_events UUID[]
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    base BIGINT;
    written BIGINT;
BEGIN
    UPDATE event_clock SET pos = pos + in_positions WHERE shard = in_shard RETURNING pos - in_positions INTO base;
    IF base IS NULL THEN
        RAISE EXCEPTION 'toolpost: shard % does not exist', in_shard USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF cardinality(new_ids) > 0 THEN
        INSERT INTO tool_calls (shard, id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos,
            started_pos, settled_pos, arguments, record, code, slow, ended_late)
        SELECT in_shard, id, COALESCE(tenant, new_tenants[1]), session, batch_id, tool, new_numbers[k * 10 - 9],
            new_numbers[k * 10 - 8], new_numbers[k * 10 - 7], in_node, new_numbers[k * 10 - 6],
            base + 1 + new_numbers[k * 10 - 5], base + 1 + NULLIF(new_numbers[k * 10 - 4], -1),
            base + 1 + NULLIF(new_numbers[k * 10 - 3], -1), arguments, record, NULLIF(new_numbers[k * 10 - 2], -1),
            NULLIF(new_numbers[k * 10 - 1], -1), NULLIF(new_numbers[k * 10], -1)
        FROM UNNEST(new_ids, new_tenants, new_sessions, new_batches, new_tools, new_arguments, new_records)
            WITH ORDINALITY AS n (id, tenant, session, batch_id, tool, arguments, record, k);
    END IF;
    IF cardinality(old_ids) > 0 THEN
        written := journal_update(in_shard, in_node, base, old_ids, old_numbers, old_arguments, old_records);
        IF written <> cardinality(old_ids) THEN
            RAISE EXCEPTION 'toolpost: % of % calls were written', written, cardinality(old_ids) USING ERRCODE = 'TP001';
        END IF;
    END IF;
    IF cardinality(event_calls) > 0 THEN
        INSERT INTO call_events (shard, call_id, seq, pos, kind, data)
        SELECT in_shard, call, seq, base + 1 + place, kind, data
        FROM UNNEST(event_calls, event_seqs, event_offsets, event_kinds, event_data) AS e (call, seq, place, kind, data);
    END IF;
    IF cardinality(callback_calls) > 0 THEN
        INSERT INTO callbacks (shard, call_id, url, host, event_id)
        SELECT in_shard, call, url, host, event
        FROM UNNEST(callback_calls, callback_urls, callback_hosts, callback_events) AS c (call, url, host, event);
    END IF;
    INSERT INTO commits (shard, id, first_pos, last_pos, at, calls, stats)
    VALUES (in_shard, in_commit, base + 1, base + in_positions, in_at, in_calls, in_stats);
    RETURN base;
END $$;

-- Writes a commit of one new call and nothing else, as `journal_commit` does. Arrays would cost the server more than the row.
CREATE FUNCTION journal_commit_insert(
    in_shard SMALLINT, in_positions BIGINT, in_node TEXT, in_commit UUID, in_at BIGINT, in_stats TEXT, new_id UUID,
    new_tenant TEXT, new_session TEXT, new_batch UUID, new_tool TEXT, new_status SMALLINT, new_attempt INTEGER, new_seq INTEGER,
    new_created_at BIGINT, accepted INTEGER, started INTEGER, settled INTEGER, -- offsets of the three positions
    new_arguments TEXT, new_record TEXT, new_code SMALLINT, new_slow SMALLINT, new_late BIGINT
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    base BIGINT;
BEGIN
    UPDATE event_clock SET pos = pos + in_positions WHERE shard = in_shard RETURNING pos - in_positions INTO base;
    IF base IS NULL THEN
        RAISE EXCEPTION 'toolpost: shard % does not exist', in_shard USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO tool_calls (shard, id, tenant, session, batch_id, tool, status, attempt, seq, node, created_at, accepted_pos,
        started_pos, settled_pos, arguments, record, code, slow, ended_late)
    VALUES (in_shard, new_id, new_tenant, new_session, new_batch, new_tool, new_status, new_attempt, new_seq, in_node,
        new_created_at, base + 1 + accepted, base + 1 + started, base + 1 + settled, new_arguments, new_record, new_code,
        new_slow, new_late);
    INSERT INTO commits (shard, id, first_pos, last_pos, at, calls, stats)
    VALUES (in_shard, in_commit, base + 1, base + in_positions, in_at, uuid_send(new_id), in_stats);
    RETURN base;
END $$;

-- Writes a commit that changes one stored call and nothing else, with the guards of `journal_update`. The settings make the plan
-- independent of statistics: it finds the row by its key and opens one partition. `+ 0` keeps it from the index of unfinished
-- calls, which is full of dead entries.
CREATE FUNCTION journal_commit_update(
    in_shard SMALLINT, in_positions BIGINT, in_node TEXT, in_commit UUID, in_at BIGINT, in_stats TEXT, old_id UUID,
    old_status SMALLINT, old_attempt INTEGER, old_seq INTEGER, started INTEGER, settled INTEGER, -- offsets of start and end
    old_arguments TEXT, old_record TEXT, old_code SMALLINT, old_slow SMALLINT, old_late BIGINT
) RETURNS BIGINT LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    base BIGINT;
    written BIGINT;
BEGIN
    UPDATE event_clock SET pos = pos + in_positions WHERE shard = in_shard RETURNING pos - in_positions INTO base;
    IF base IS NULL THEN
        RAISE EXCEPTION 'toolpost: shard % does not exist', in_shard USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE tool_calls AS c SET
        status = old_status, attempt = old_attempt, seq = old_seq, started_pos = COALESCE(c.started_pos, base + 1 + started),
        settled_pos = base + 1 + settled, code = old_code, slow = old_slow, ended_late = old_late,
        arguments = COALESCE(old_arguments, c.arguments), record = old_record
    WHERE c.shard = in_shard AND c.id = old_id AND c.status + 0 < 2 AND c.attempt <= old_attempt AND c.seq < old_seq
        AND c.node = in_node;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> 1 THEN
        RAISE EXCEPTION 'toolpost: the call % was not written', old_id USING ERRCODE = 'TP001';
    END IF;
    INSERT INTO commits (shard, id, first_pos, last_pos, at, calls, stats)
    VALUES (in_shard, in_commit, base + 1, base + in_positions, in_at, uuid_send(old_id), in_stats);
    RETURN base;
END $$;

-- Claims idempotency keys and writes one commit. An expired key is replaced, and a valid one fails the commit.
CREATE FUNCTION journal_commit_with_keys(
    key_tenants TEXT[], key_hashes BYTEA[], key_fingerprints BYTEA[], key_batches UUID[], key_calls BYTEA[], expiry BIGINT,
    in_shard SMALLINT, in_positions BIGINT, in_node TEXT, in_commit UUID, in_at BIGINT, in_calls BYTEA, in_stats TEXT,
    new_ids UUID[], new_tenants TEXT[], new_sessions TEXT[], new_batches UUID[], new_tools TEXT[], new_numbers BIGINT[],
    new_arguments TEXT[], new_records TEXT[],
    old_ids UUID[], old_numbers BIGINT[], old_arguments TEXT[], old_records TEXT[],
    event_calls UUID[], event_seqs INTEGER[], event_offsets INTEGER[], event_kinds TEXT[], event_data TEXT[],
    callback_calls UUID[], callback_urls TEXT[], callback_hosts TEXT[], callback_events UUID[]
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    written BIGINT;
BEGIN
    WITH claimed AS (
        INSERT INTO idempotency_keys AS k (tenant, key, fingerprint, batch_id, calls, expires_at)
        SELECT tenant, key, fingerprint, batch_id, calls, expiry
        FROM UNNEST(key_tenants, key_hashes, key_fingerprints, key_batches, key_calls)
            AS n (tenant, key, fingerprint, batch_id, calls)
        ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, batch_id = excluded.batch_id,
            calls = excluded.calls, expires_at = excluded.expires_at
        WHERE k.expires_at <= in_at
        RETURNING 1)
    SELECT COUNT(*) INTO written FROM claimed;
    IF written <> cardinality(key_hashes) THEN
        RAISE EXCEPTION 'toolpost: % of % keys were claimed', written, cardinality(key_hashes) USING ERRCODE = 'TP001';
    END IF;
    RETURN journal_commit(
        in_shard, in_positions, in_node, in_commit, in_at, in_calls, in_stats, new_ids, new_tenants, new_sessions, new_batches,
        new_tools, new_numbers, new_arguments, new_records, old_ids, old_numbers, old_arguments, old_records, event_calls,
        event_seqs, event_offsets, event_kinds, event_data, callback_calls, callback_urls, callback_hosts, callback_events
    );
END $$;


-- ---------------------------------------------------------------------------------------------------------------------
-- Calls of workers
-- ---------------------------------------------------------------------------------------------------------------------

-- The settings of these functions make their plans independent of statistics: rows are found by their keys.

-- Deletes the rows of ended calls of a node, and offers attempts of other calls, unless they or later ones are offered. An offer
-- with a worker is claimed by it, and only such an offer is on disk afterwards. Returns the stored offers; a call that has ended, or that another node owns, has none.
CREATE FUNCTION write_offers(
    in_node TEXT, ended UUID[], shards SMALLINT[], calls UUID[], tenants TEXT[], queues TEXT[], tools TEXT[], priorities INTEGER[],
    attempts INTEGER[], leases BIGINT[], in_workers TEXT[]
) RETURNS TABLE (
    stored_call UUID, stored_attempt INTEGER, stored_state SMALLINT, lease_left BIGINT, since_claim BIGINT, age BIGINT
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    now_ms BIGINT := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
    own UUID[];
BEGIN
    IF cardinality(array_remove(in_workers, NULL)) = 0 THEN
        -- An offer that the database loses in a crash is stored again, and a claim of it makes both durable.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF cardinality(ended) > 0 THEN
        -- Locked in the order of heartbeats, so that neither waits for the other forever.
        PERFORM 1 FROM worker_calls AS w WHERE w.call_id = ANY (ended) AND w.node = in_node ORDER BY w.call_id FOR UPDATE;
        DELETE FROM worker_calls AS w WHERE w.call_id = ANY (ended) AND w.node = in_node;
    END IF;
    IF cardinality(calls) IS NULL THEN
        RETURN;
    END IF;
    -- An owner that was frozen must not offer a call that another node has settled since.
    SELECT array_agg(c.id) INTO own
    FROM UNNEST(shards, calls) AS o (shard, id) JOIN tool_calls AS c ON c.shard = o.shard AND c.id = o.id
    WHERE c.status + 0 < 2 AND c.node = in_node;
    RETURN QUERY
    INSERT INTO worker_calls AS w (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, lease_ms, worker,
        claimed_at, lease_until)
    SELECT o.id, o.tenant, o.queue, o.tool, o.priority, o.attempt, (o.worker IS NOT NULL)::INTEGER, in_node, now_ms, o.lease,
        o.worker, CASE WHEN o.worker IS NOT NULL THEN now_ms END, CASE WHEN o.worker IS NOT NULL THEN now_ms + o.lease END
    FROM UNNEST(calls, tenants, queues, tools, priorities, attempts, leases, in_workers)
        AS o (id, tenant, queue, tool, priority, attempt, lease, worker)
    WHERE o.id = ANY (own)
    ON CONFLICT (call_id) DO UPDATE SET
        node = excluded.node,
        state = CASE WHEN w.attempt < excluded.attempt THEN 0 ELSE w.state END,
        offered_at = CASE WHEN w.attempt < excluded.attempt THEN excluded.offered_at ELSE w.offered_at END,
        worker = CASE WHEN w.attempt < excluded.attempt THEN NULL ELSE w.worker END,
        attempt = CASE WHEN w.attempt < excluded.attempt THEN excluded.attempt ELSE w.attempt END
    RETURNING w.call_id, w.attempt, w.state, COALESCE(w.lease_until - now_ms, 0), COALESCE(now_ms - w.claimed_at, 0),
        now_ms - w.offered_at;
END $$;

-- Writes one commit with new calls that workers claim. Their rows need no check, because the commit itself accepts the calls.
CREATE FUNCTION journal_commit_with_claims(
    claimed UUID[], tenants TEXT[], queues TEXT[], tools TEXT[], priorities INTEGER[], attempts INTEGER[], leases BIGINT[],
    in_workers TEXT[],
    in_shard SMALLINT, in_positions BIGINT, in_node TEXT, in_commit UUID, in_at BIGINT, in_calls BYTEA, in_stats TEXT,
    new_ids UUID[], new_tenants TEXT[], new_sessions TEXT[], new_batches UUID[], new_tools TEXT[], new_numbers BIGINT[],
    new_arguments TEXT[], new_records TEXT[],
    old_ids UUID[], old_numbers BIGINT[], old_arguments TEXT[], old_records TEXT[],
    event_calls UUID[], event_seqs INTEGER[], event_offsets INTEGER[], event_kinds TEXT[], event_data TEXT[],
    callback_calls UUID[], callback_urls TEXT[], callback_hosts TEXT[], callback_events UUID[]
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    now_ms BIGINT := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
BEGIN
    INSERT INTO worker_calls (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, lease_ms, worker,
        claimed_at, lease_until)
    SELECT o.id, o.tenant, o.queue, o.tool, o.priority, o.attempt, 1, in_node, now_ms, o.lease, o.worker, now_ms, now_ms + o.lease
    FROM UNNEST(claimed, tenants, queues, tools, priorities, attempts, leases, in_workers)
        AS o (id, tenant, queue, tool, priority, attempt, lease, worker);
    RETURN journal_commit(
        in_shard, in_positions, in_node, in_commit, in_at, in_calls, in_stats, new_ids, new_tenants, new_sessions, new_batches,
        new_tools, new_numbers, new_arguments, new_records, old_ids, old_numbers, old_arguments, old_records, event_calls,
        event_seqs, event_offsets, event_kinds, event_data, callback_calls, callback_urls, callback_hosts, callback_events
    );
END $$;

-- Gives the best waiting calls of a queue to workers: the call at place `n` goes to `in_workers[n]`. NULL stands for all tools. A
-- call that another transaction gives away is skipped.
CREATE FUNCTION claim_calls(in_tenant TEXT, in_queue TEXT, in_tools TEXT[], in_workers TEXT[], in_node TEXT)
RETURNS TABLE (claimed_call UUID, claimed_attempt INTEGER, claimed_lease BIGINT, claimed_priority INTEGER, is_own BOOLEAN)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    now_ms BIGINT := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
BEGIN
    RETURN QUERY
    WITH best AS (
        SELECT w.call_id, w.priority FROM worker_calls AS w
        WHERE w.state = 0 AND w.tenant = in_tenant AND w.queue = in_queue AND (in_tools IS NULL OR w.tool = ANY (in_tools))
        ORDER BY w.priority DESC, w.call_id LIMIT cardinality(in_workers) FOR UPDATE SKIP LOCKED),
    ranked AS (SELECT call_id, ROW_NUMBER() OVER (ORDER BY priority DESC, call_id) AS place FROM best)
    UPDATE worker_calls AS w SET
        state = 1, worker = in_workers[r.place], claimed_at = now_ms, lease_until = now_ms + w.lease_ms
    FROM ranked AS r WHERE w.call_id = r.call_id
    RETURNING w.call_id, w.attempt, w.lease_ms, w.priority, w.node = in_node;
END $$;
