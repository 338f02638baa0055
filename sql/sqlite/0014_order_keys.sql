-- Which order keys of a consumer wait, and when each may be tried, without looking at what is parked; and consumers that hold
-- or are paused.
--
-- due_at: when the first message of the order key may be tried; null: it waits for a person, or for an event that it is told
-- by. due_by_version_at: the same where versions are guarded. Triggers keep it.
CREATE TABLE sealane_inbox_order_key (
  consumer          TEXT    NOT NULL,
  unit              BLOB    NOT NULL,
  due_at            INTEGER,
  due_by_version_at INTEGER,
  PRIMARY KEY (consumer, unit)
) STRICT, WITHOUT ROWID;
CREATE INDEX sealane_inbox_order_key_due ON sealane_inbox_order_key (consumer, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sealane_inbox_order_key_due_by_version ON sealane_inbox_order_key (consumer, due_by_version_at)
    WHERE due_by_version_at IS NOT NULL;

-- A row that is inserted here brings the row of an order key up to date.
CREATE VIEW sealane_inbox_refresh AS SELECT consumer, unit FROM sealane_inbox_order_key;
CREATE TRIGGER sealane_inbox_refresh_key INSTEAD OF INSERT ON sealane_inbox_refresh BEGIN
  DELETE FROM sealane_inbox_order_key
   WHERE consumer = NEW.consumer AND unit = NEW.unit
     AND NOT EXISTS (SELECT 1 FROM sealane_inbox_parked p
                      WHERE p.consumer = NEW.consumer AND p.unit = NEW.unit AND p.state <> 'SKIPPED');
  INSERT INTO sealane_inbox_order_key (consumer, unit, due_at, due_by_version_at)
  SELECT NEW.consumer, NEW.unit,
         CASE WHEN f.state IN ('RECEIVED', 'FAILED') OR (f.state = 'GAP' AND f.next_attempt_at IS NOT NULL)
              THEN max(coalesce(f.next_attempt_at, f.parked_at), coalesce(f.claimed_until, 0)) END,
         CASE WHEN v.state IN ('RECEIVED', 'FAILED') OR (v.state = 'GAP' AND v.next_attempt_at IS NOT NULL)
              THEN max(coalesce(v.next_attempt_at, v.parked_at), coalesce(v.claimed_until, 0)) END
    FROM sealane_inbox_parked f
    JOIN sealane_inbox_parked v
      ON v.place = coalesce((SELECT l.place FROM sealane_inbox_parked l
                              WHERE f.aggregate_version IS NOT NULL AND l.consumer = f.consumer AND l.unit = f.unit
                                AND l.state <> 'SKIPPED' AND l.tenant = f.tenant AND l.aggregate_type = f.aggregate_type
                                AND l.aggregate_id = f.aggregate_id AND l.aggregate_version IS NOT NULL
                              ORDER BY l.aggregate_version, l.place LIMIT 1), f.place)
   WHERE f.place = (SELECT p.place FROM sealane_inbox_parked p
                     WHERE p.consumer = NEW.consumer AND p.unit = NEW.unit AND p.state <> 'SKIPPED'
                     ORDER BY p.place LIMIT 1)
  ON CONFLICT (consumer, unit) DO UPDATE
     SET due_at = excluded.due_at, due_by_version_at = excluded.due_by_version_at
   WHERE due_at IS NOT excluded.due_at OR due_by_version_at IS NOT excluded.due_by_version_at;
END;

INSERT INTO sealane_inbox_refresh (consumer, unit)
  SELECT DISTINCT consumer, unit FROM sealane_inbox_parked WHERE state <> 'SKIPPED';
CREATE TRIGGER sealane_inbox_parked_inserted AFTER INSERT ON sealane_inbox_parked WHEN NEW.state <> 'SKIPPED' BEGIN
  INSERT INTO sealane_inbox_refresh (consumer, unit) VALUES (NEW.consumer, NEW.unit);
END;
CREATE TRIGGER sealane_inbox_parked_updated
  AFTER UPDATE OF state, next_attempt_at, claimed_until ON sealane_inbox_parked BEGIN
  INSERT INTO sealane_inbox_refresh (consumer, unit) VALUES (NEW.consumer, NEW.unit);
END;
CREATE TRIGGER sealane_inbox_parked_deleted AFTER DELETE ON sealane_inbox_parked WHEN OLD.state <> 'SKIPPED' BEGIN
  INSERT INTO sealane_inbox_refresh (consumer, unit) VALUES (OLD.consumer, OLD.unit);
END;

-- What is counted, and what an operator decides about in the order in which it waits.
DROP INDEX sealane_inbox_parked_waiting;
CREATE INDEX sealane_inbox_parked_dead ON sealane_inbox_parked (consumer) WHERE state = 'DEAD';
CREATE INDEX sealane_inbox_parked_gap ON sealane_inbox_parked (consumer) WHERE state = 'GAP';
CREATE INDEX sealane_inbox_parked_oldest ON sealane_inbox_parked (consumer, parked_at, place)
    WHERE state IN ('GAP', 'FAILED', 'DEAD');

-- A consumer that an operator paused, or whose members hold: hold_code is circuit_open or parked_limit.
ALTER TABLE sealane_inbox_consumer ADD COLUMN paused_at INTEGER;
ALTER TABLE sealane_inbox_consumer ADD COLUMN pause_reason TEXT;
ALTER TABLE sealane_inbox_consumer ADD COLUMN pause_actor TEXT;
ALTER TABLE sealane_inbox_consumer ADD COLUMN held_at INTEGER;
ALTER TABLE sealane_inbox_consumer ADD COLUMN hold_code TEXT;
ALTER TABLE sealane_inbox_consumer ADD COLUMN hold_message TEXT;
