-- Groups of tools, which are switched together. They move `tools_clock` like the tools themselves.
-- Times are microseconds since 1970-01-01T00:00:00Z.

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
