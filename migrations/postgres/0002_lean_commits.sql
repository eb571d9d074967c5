-- What each commit costs, whatever it writes.

-- A CHECK is parsed anew for every statement.
ALTER TABLE event_clock DROP CONSTRAINT event_clock_one_check;
ALTER TABLE tools_clock DROP CONSTRAINT tools_clock_one_check;
-- Rows that are updated over and over stay on their page.
ALTER TABLE event_clock SET (fillfactor = 10);
ALTER TABLE tool_stats SET (fillfactor = 50);

-- Commits are found by position alone. That none is made twice follows from the calls themselves: a row that is there
-- refuses to be inserted, and a change whose events are already counted in `seq` refuses to be made.
DROP INDEX commits_by_pos;
ALTER TABLE commits DROP CONSTRAINT commits_pkey;
ALTER TABLE commits ADD PRIMARY KEY (last_pos);

-- The number of the call's last event.
ALTER TABLE tool_calls ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE tool_calls SET seq = (record::json ->> 'last_seq')::integer;
