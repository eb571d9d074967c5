-- What lets calls survive their callers, their nodes and their retries.

-- Keys that make two requests one. Both hashes are SHA-256; the key itself may be secret.
CREATE TABLE idempotency_keys (
    tenant      TEXT   NOT NULL,
    key         BLOB   NOT NULL,
    fingerprint BLOB   NOT NULL,
    batch_id    BLOB,
    calls       BLOB   NOT NULL,      -- ids, 16 bytes each
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_keys_by_end ON idempotency_keys (expires_at);

-- The nodes that live. `beat` moves while they do: it is the lease of all their calls.
CREATE TABLE nodes (
    node TEXT   NOT NULL PRIMARY KEY,
    beat BIGINT NOT NULL
);

-- What one node has to tell another about a call: that it is cancelled, reported on, or done.
CREATE TABLE inbox (
    id      BLOB NOT NULL PRIMARY KEY,
    call_id BLOB NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL
);
CREATE INDEX inbox_by_call ON inbox (call_id);
-- The first result wins, whichever node it came to.
CREATE UNIQUE INDEX inbox_one_result ON inbox (call_id) WHERE kind = 'result';
