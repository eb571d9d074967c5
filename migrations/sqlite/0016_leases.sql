-- The lease of a node: when it was last heard, by the clock of the database, and how long that counts.
ALTER TABLE nodes ADD COLUMN beat_at INTEGER;   -- milliseconds since 1970-01-01T00:00:00Z
ALTER TABLE nodes ADD COLUMN lease_ms INTEGER;  -- NULL: a node of an earlier version, which does not state it

-- The database stamps each heartbeat, so that nodes of earlier versions have a lease, too.
CREATE TRIGGER nodes_stamped_first AFTER INSERT ON nodes BEGIN
    UPDATE nodes SET beat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) WHERE node = NEW.node;
END;
CREATE TRIGGER nodes_stamped_again AFTER UPDATE OF beat ON nodes BEGIN
    UPDATE nodes SET beat_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) WHERE node = NEW.node;
END;
UPDATE nodes SET beat = beat;
