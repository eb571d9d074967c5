-- Conversations. Times are microseconds since 1970-01-01T00:00:00Z.

CREATE TABLE sessions (
    tenant      TEXT     NOT NULL,
    id          TEXT     NOT NULL,
    state       SMALLINT NOT NULL,  -- 0 ACTIVE, 1 COMPLETED, 2 ABORTED
    parent      TEXT,
    parent_call UUID,               -- the call of the parent that waits for this one's end
    switched    TEXT     NOT NULL,  -- JSON: groups that are on or off otherwise than for everybody
    completion  TEXT,               -- JSON: how its task has ended
    doc         TEXT     NOT NULL,  -- JSON: everything else
    since_pos   BIGINT   NOT NULL,  -- its calls come behind this position: not those of a forgotten one of this id
    created_at  BIGINT   NOT NULL,
    updated_at  BIGINT   NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX sessions_by_age ON sessions (tenant, created_at, id);
CREATE INDEX sessions_by_use ON sessions (updated_at);
CREATE INDEX sessions_by_parent ON sessions (tenant, parent) WHERE parent IS NOT NULL;
