-- Hooks registered over HTTP. They move `tools_clock`, so that every node sees that it has to read them again.
CREATE TABLE hooks (
    tenant     TEXT   NOT NULL,
    id         BLOB   NOT NULL,
    definition TEXT   NOT NULL,      -- JSON, without the secret
    secret     TEXT,                 -- what its requests are signed with; the service's own where there is none
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
