-- How far what has happened was deleted because it is older than it is to be kept.
CREATE TABLE retention (
    one        INTEGER NOT NULL PRIMARY KEY,
    calls_pos  INTEGER NOT NULL,  -- calls that ended up to here are gone, and the commits
    events_pos INTEGER NOT NULL   -- what tools reported of such calls is gone
);
INSERT INTO retention (one, calls_pos, events_pos) VALUES (1, 0, 0);
