-- Events whose time has not come, and what operators decide about parked ones.

-- An event with available_at in the future is not parked: it has not failed and holds back nothing. The relay's position
-- moves past it, and it is kept here until its time has come. There may be any number of them: a relay reads what is due
-- through the index on the time, and nothing else.
CREATE TABLE sealane_delayed (
  route  TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  seq    INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  tenant TEXT    NOT NULL,
  PRIMARY KEY (route, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX sealane_delayed_due ON sealane_delayed (route, due_at, seq, tenant);

-- Until now they were parked, and their key waited with them.
INSERT INTO sealane_delayed (route, seq, due_at, tenant)
  SELECT p.route, p.seq, p.next_attempt_at, p.tenant FROM sealane_parked p JOIN sealane_outbox o ON o.seq = p.seq
   WHERE p.state = 'WAITING' AND p.waits_for IS NULL AND p.next_attempt_at IS NOT NULL AND p.error_code IS NULL
     AND o.available_at IS NOT NULL;
DELETE FROM sealane_parked
 WHERE state = 'WAITING' AND EXISTS (SELECT 1 FROM sealane_delayed d
                                      WHERE d.route = sealane_parked.route AND d.seq = sealane_parked.seq);

-- Relays know in memory which order keys are held back and when each is tried again. What an operator changes is told to
-- them here, one row for each order key. What a relay itself writes only makes an event fail later, or die.
CREATE TABLE sealane_parked_change (
  id    INTEGER NOT NULL PRIMARY KEY,
  route TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  unit  TEXT    NOT NULL
) STRICT;
CREATE TRIGGER sealane_parked_changed AFTER UPDATE ON sealane_parked
  WHEN (OLD.state = 'DEAD' AND NEW.state <> 'DEAD') OR (OLD.state <> 'DISCARDED' AND NEW.state = 'DISCARDED')
       OR (OLD.state = 'DEAD' AND OLD.skipped <> NEW.skipped) OR OLD.unit <> NEW.unit
       OR NEW.attempts < OLD.attempts OR NEW.next_attempt_at < OLD.next_attempt_at
BEGIN
  INSERT INTO sealane_parked_change (route, unit) VALUES (OLD.route, OLD.unit);
  INSERT INTO sealane_parked_change (route, unit) SELECT NEW.route, NEW.unit WHERE NEW.unit <> OLD.unit;
END;
DROP INDEX sealane_parked_failed;  -- relays count in memory

-- As in 0002; a delayed event is PENDING, and leaves at next_attempt_at.
DROP VIEW sealane_outbox_status;
CREATE VIEW sealane_outbox_status AS
SELECT s.seq, s.event_id, s.route,
       CASE
         WHEN s.parked_state IN ('FAILED', 'DEAD', 'DISCARDED') THEN s.parked_state
         WHEN s.parked_state = 'WAITING' OR s.due_at IS NOT NULL THEN 'PENDING'
         WHEN s.seq <= s.done_seq THEN 'PUBLISHED'
         WHEN s.seq <= s.window_seq
              AND s.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                 + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000 THEN 'PUBLISHING'
         ELSE 'PENDING'
       END AS status,
       coalesce(s.parked_attempts, s.due_at IS NULL AND coalesce(s.seq <= s.done_seq, 0)) AS attempts,
       coalesce(s.due_at, s.next_attempt_at) AS next_attempt_at,
       CASE WHEN s.parked_state IS NULL AND s.due_at IS NULL AND s.seq <= s.done_seq THEN
         (SELECT t.at FROM sealane_settlement t
           WHERE t.route = s.route AND t.seq_to >= s.seq
             AND CASE WHEN t.tenants IS NULL THEN s.tenant NOT IN (SELECT value FROM json_each(t.except_tenants))
                      ELSE s.tenant IN (SELECT value FROM json_each(t.tenants)) END
           ORDER BY t.seq_to, t.at LIMIT 1)
       END AS published_at,
       s.last_error_code, s.last_error_message, s.first_failed_at, s.last_failed_at, s.appended_at, s.occurred_at,
       s.available_at, s.lane, s.kind, s.tenant, s.topic, s.key, s.type, s.schema_version, s.aggregate_type,
       s.aggregate_id, s.aggregate_version, s.correlation_id, s.causation_id, s.producer, s.payload_size
  FROM (SELECT o.seq, o.event_id, r.name AS route, p.state AS parked_state, p.attempts AS parked_attempts,
               p.next_attempt_at, d.due_at, c.expires_at,
               CASE WHEN c.apart IS NULL THEN c.published_seq
                    ELSE coalesce((SELECT json_extract(f.value, '$.seq')
                                     FROM json_each(c.apart) f, json_each(f.value, '$.tenants') t
                                    WHERE t.value = o.tenant LIMIT 1), c.published_seq) END AS done_seq,
               CASE WHEN c.apart IS NULL THEN c.window_seq
                    WHEN EXISTS (SELECT 1 FROM json_each(c.apart) f, json_each(f.value, '$.tenants') t
                                  WHERE t.value = o.tenant) THEN 0
                    ELSE c.window_seq END AS window_seq,
               p.error_code AS last_error_code, p.error_message AS last_error_message, p.first_failed_at,
               p.last_failed_at, o.appended_at, o.occurred_at, o.available_at, 0 AS lane, o.kind, o.tenant, o.topic,
               o.key, o.type, o.schema_version, o.aggregate_type, o.aggregate_id, o.aggregate_version,
               o.correlation_id, o.causation_id, o.producer, length(o.payload) AS payload_size
          FROM sealane_outbox o
         CROSS JOIN sealane_route r
          LEFT JOIN sealane_cursor c ON c.route = r.name
          LEFT JOIN sealane_parked p ON p.route = r.name AND p.seq = o.seq
          LEFT JOIN sealane_delayed d ON d.route = r.name AND d.seq = o.seq) s;
