-- Who may ask, and whose tools have changed. Times are microseconds since 1970-01-01T00:00:00Z.

-- Revoked keys stay: a service that has ever had one is never open again by itself.
CREATE TABLE api_keys (
    id           UUID     NOT NULL PRIMARY KEY,
    tenant       TEXT     NOT NULL,
    name         TEXT     NOT NULL,
    prefix       TEXT     NOT NULL,  -- how the key begins: to tell it from others, and to look it up by
    hash         BYTEA    NOT NULL,  -- SHA-256 of the whole key
    scopes       TEXT     NOT NULL,  -- with blanks between them
    tools        TEXT     NOT NULL,  -- JSON: globs; an empty list restricts nothing
    rate         BIGINT,             -- requests a minute; null is the settings'
    concurrency  BIGINT,             -- requests at once; null is the settings'
    created_at   BIGINT   NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT              -- coarse: noted once a minute at most
);
CREATE INDEX api_keys_by_prefix ON api_keys (prefix);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, id);

-- Moves with every change of `api_keys`, so that a node sees cheaply that it has to forget what it knows of them.
CREATE TABLE keys_clock (
    one     SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT   NOT NULL
);
INSERT INTO keys_clock (one, version) VALUES (1, 0);

-- The version of `tools_clock` at which a tenant's tools, groups, presets or hooks changed last.
CREATE TABLE tenant_clocks (
    tenant  TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
CREATE INDEX tenant_clocks_by_version ON tenant_clocks (version);
