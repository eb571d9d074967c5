-- Presets of tools that were written over the API. They come over those of the tool's definition.
-- Times are microseconds since 1970-01-01T00:00:00Z.

CREATE TABLE tool_presets (
    tenant      TEXT     NOT NULL,
    tool        TEXT     NOT NULL,
    name        TEXT     NOT NULL,           -- the argument
    overridable SMALLINT NOT NULL DEFAULT 0,
    secret      TEXT,                        -- the name of a secret; its value is not here
    key_id      TEXT,                        -- which key opens `sealed`
    sealed      BYTEA,                       -- nonce, ciphertext and tag; with neither this nor `secret` it was removed
    revision    BIGINT   NOT NULL DEFAULT 1, -- counted up by every change, also by the removal
    updated_at  BIGINT   NOT NULL,
    PRIMARY KEY (tenant, tool, name)
);
