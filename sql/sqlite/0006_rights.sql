-- Relays of an earlier version go on with what they know of the tables, and would invert events that are parked.
CREATE TABLE sealane_guard (
  live INTEGER NOT NULL CONSTRAINT "relays are running: stop them, migrate, then start the new ones" CHECK (live = 0)
) STRICT;
INSERT INTO sealane_guard
  SELECT count(*) FROM sealane_relay_member WHERE expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000;
DROP TABLE sealane_guard;

-- The audit trail also keeps the operating system's user, the host and the program that made a change; empty in records
-- from before. actor is what the caller says.
ALTER TABLE sealane_audit ADD COLUMN login TEXT NOT NULL DEFAULT '';
ALTER TABLE sealane_audit ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE sealane_audit ADD COLUMN application TEXT NOT NULL DEFAULT '';
