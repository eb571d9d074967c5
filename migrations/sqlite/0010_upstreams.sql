-- Upstream MCP servers that were registered over HTTP, and the definitions of tools that somebody relies on. Both move
-- `tools_clock`, so that every node sees that it has to read them again.
-- Times are microseconds since 1970-01-01T00:00:00Z.

CREATE TABLE upstreams (
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    definition TEXT   NOT NULL,      -- JSON, without address and headers, which may hold secrets
    key_id     TEXT   NOT NULL,      -- which key opens `sealed`
    sealed     BLOB   NOT NULL,      -- address and headers: nonce, ciphertext and tag
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE upstream_pins (
    tenant     TEXT   NOT NULL,
    upstream   TEXT   NOT NULL,      -- the server's name, wherever it is declared
    tool       TEXT   NOT NULL,      -- the tool's name there
    hash       TEXT   NOT NULL,      -- SHA-256 of what a model is told of it, in hexadecimal digits
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, upstream, tool)
);
