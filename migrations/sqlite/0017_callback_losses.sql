-- Tries of a callback whose end was never recorded, since their node or the database was lost: they use up no step of the
-- schedule.
ALTER TABLE callbacks ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
