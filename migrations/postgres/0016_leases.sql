-- The lease of a node: when it was last heard, by the clock of the database, and how long that counts.
ALTER TABLE nodes ADD COLUMN beat_at BIGINT;   -- milliseconds since 1970-01-01T00:00:00Z
ALTER TABLE nodes ADD COLUMN lease_ms BIGINT;  -- NULL: a node of an earlier version, which does not state it

-- The database stamps each heartbeat, so that nodes of earlier versions have a lease, too.
CREATE FUNCTION toolpost_stamp_beat() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.beat_at := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_stamped BEFORE INSERT OR UPDATE OF beat ON nodes
    FOR EACH ROW EXECUTE FUNCTION toolpost_stamp_beat();
UPDATE nodes SET beat = beat;
