-- The ends of calls that are told to the URLs that their callers gave, and values that the service makes once and keeps.
-- Times are microseconds since 1970-01-01T00:00:00Z.

CREATE TABLE callbacks (
    call_id      BLOB     NOT NULL PRIMARY KEY,
    url          TEXT     NOT NULL,
    host         TEXT     NOT NULL,            -- host and port of the URL: one that hangs must not hold up the others
    event_id     BLOB     NOT NULL,            -- the same on every try
    state        SMALLINT NOT NULL DEFAULT 0,  -- 0 pending, 1 delivered, 2 failed
    attempts     INTEGER  NOT NULL DEFAULT 0,  -- tries begun; fences the results of earlier ones
    next_at      BIGINT,                       -- of a pending one: NULL until a first try has failed
    leased_until BIGINT,                       -- somebody tries it until then
    last_status  SMALLINT,
    last_error   TEXT,
    delivered_at BIGINT
);
-- In the order in which they are looked for; NULL comes first.
CREATE INDEX callbacks_pending ON callbacks (next_at, call_id) WHERE state = 0;

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
