-- A commit notes beside itself what it counts; the sums are made of these notes a little later, or when somebody asks.

-- JSON, NULL where nothing ended.
ALTER TABLE commits ADD COLUMN stats TEXT;

-- Up to which position the notes are in the sums.
CREATE TABLE stats_folded (
    one INTEGER NOT NULL PRIMARY KEY,
    pos INTEGER NOT NULL
);
INSERT INTO stats_folded (one, pos) SELECT 1, pos FROM event_clock;
