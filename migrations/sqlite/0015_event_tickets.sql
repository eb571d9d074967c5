-- Tickets for event streams, for clients that cannot send headers. Times are microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE event_tickets (
    hash       BLOB    NOT NULL PRIMARY KEY,  -- SHA-256 of the ticket
    tenant     TEXT    NOT NULL,
    path       TEXT    NOT NULL,              -- the stream that it is for
    key_id     BLOB,                          -- the key that asked for it
    token      TEXT,                          -- JSON: the token of an issuer that asked for it; both null: an open service
    used_at    BIGINT,                        -- when it was first used
    expires_at BIGINT  NOT NULL
);
CREATE INDEX event_tickets_by_end ON event_tickets (expires_at);
CREATE INDEX event_tickets_by_tenant ON event_tickets (tenant);
