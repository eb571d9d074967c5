-- Calls, their events, their stats, and the tools registered over HTTP.
-- Times are microseconds since 1970-01-01T00:00:00Z. JSON is kept as text: jsonb refuses U+0000.

CREATE TABLE tool_calls (
    id           UUID     NOT NULL PRIMARY KEY,
    tenant       TEXT     NOT NULL,
    session      TEXT,
    batch_id     UUID,
    tool         TEXT     NOT NULL,  -- the name as asked for, cut to what an index takes
    status       SMALLINT NOT NULL,  -- 0 WAIT, 1 DOING, 2 SUCCESS, 3 ERROR
    attempt      INTEGER  NOT NULL,  -- fences writes: a later attempt's row refuses an earlier one's
    node         TEXT     NOT NULL,
    created_at   BIGINT   NOT NULL,
    accepted_pos BIGINT   NOT NULL,  -- position of the first event of each group that the row itself stands for
    started_pos  BIGINT,
    settled_pos  BIGINT,
    arguments    TEXT     NOT NULL,
    record       TEXT     NOT NULL   -- everything else that the call shows
);
CREATE INDEX tool_calls_by_session ON tool_calls (tenant, session, id) WHERE session IS NOT NULL;
CREATE INDEX tool_calls_by_batch ON tool_calls (batch_id) WHERE batch_id IS NOT NULL;
-- The calls that someone looks for: those under way and those that failed. Good ones cost no entry.
CREATE INDEX tool_calls_not_well ON tool_calls (status, id) WHERE status <> 2;

-- Only events that the call's row does not already stand for: what a running tool reported.
CREATE TABLE call_events (
    call_id UUID    NOT NULL,
    seq     INTEGER NOT NULL,
    pos     BIGINT  NOT NULL,
    kind    TEXT    NOT NULL,
    data    TEXT    NOT NULL,
    PRIMARY KEY (call_id, seq)
);

-- One row a commit of the journal: which positions it took and whose calls they are.
CREATE TABLE commits (
    id        UUID   NOT NULL PRIMARY KEY,
    first_pos BIGINT NOT NULL,
    last_pos  BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    calls     BYTEA  NOT NULL      -- ids, 16 bytes each
);
CREATE UNIQUE INDEX commits_by_pos ON commits (last_pos);

-- Hands out positions. Its row lock makes commits of all nodes follow one another, so position order is commit order.
CREATE TABLE event_clock (
    one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    pos BIGINT   NOT NULL
);
INSERT INTO event_clock (one, pos) VALUES (1, 0);

-- Additive counts: a histogram bucket a row. minute = 0 is the total.
CREATE TABLE tool_stats (
    tenant       TEXT     NOT NULL,
    tool         TEXT     NOT NULL,
    minute       BIGINT   NOT NULL,
    executed     SMALLINT NOT NULL,
    code         TEXT     NOT NULL,
    bucket       INTEGER  NOT NULL,
    calls        BIGINT   NOT NULL,
    total_ms     BIGINT   NOT NULL,
    min_ms       BIGINT   NOT NULL,
    max_ms       BIGINT   NOT NULL,
    retries      BIGINT   NOT NULL,
    last_at      BIGINT   NOT NULL,
    PRIMARY KEY (tenant, tool, minute, executed, code, bucket)
);

CREATE TABLE tools (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    definition TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Moves with every change of `tools`, so that a node sees cheaply that it has to read them again.
CREATE TABLE tools_clock (
    one     SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT   NOT NULL
);
INSERT INTO tools_clock (one, version) VALUES (1, 0);

-- Ends a statement whose rows were not all written; the journal then finds out which were refused.
CREATE FUNCTION toolpost_expect(written BIGINT, expected BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF written <> expected THEN
        RAISE EXCEPTION 'toolpost: % of % rows were written', written, expected USING ERRCODE = 'TP001';
    END IF;
    RETURN TRUE;
END $$;
