-- How far what has happened was deleted because it is older than it is to be kept.
CREATE TABLE retention (
    one        SMALLINT NOT NULL PRIMARY KEY,
    calls_pos  BIGINT   NOT NULL,  -- calls that ended up to here are gone, and the commits
    events_pos BIGINT   NOT NULL   -- what tools reported of such calls is gone
) WITH (fillfactor = 10);
INSERT INTO retention (one, calls_pos, events_pos) VALUES (1, 0, 0);
