-- What each commit costs, whatever it writes.

-- Commits are found by position alone, which here is the row's own number. That none is made twice follows from the calls
-- themselves: a row that is there refuses to be inserted, and a change whose events are already counted in `seq` refuses
-- to be made.
ALTER TABLE commits RENAME TO commits_before;
DROP INDEX commits_by_pos;
CREATE TABLE commits (
    id        BLOB    NOT NULL,
    first_pos BIGINT  NOT NULL,
    last_pos  INTEGER NOT NULL PRIMARY KEY,
    at        BIGINT  NOT NULL,
    calls     BLOB    NOT NULL
);
INSERT INTO commits (id, first_pos, last_pos, at, calls) SELECT id, first_pos, last_pos, at, calls FROM commits_before;
DROP TABLE commits_before;

-- The number of the call's last event.
ALTER TABLE tool_calls ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE tool_calls SET seq = json_extract(record, '$.last_seq');
