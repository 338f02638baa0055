-- Events that wait for a topic, topics that operators changed, and the order that a route was run with.

-- A topic that the broker does not have is an outage of that topic: its events are WAITING here with its name in
-- waits_for. They have not failed, hold back no other event, and do not count towards the limit of parked events.
-- destination: the topic that an operator chose instead of the event's own.
ALTER TABLE sealane_parked ADD COLUMN waits_for TEXT;
ALTER TABLE sealane_parked ADD COLUMN destination TEXT;
DROP INDEX sealane_parked_unit;
CREATE INDEX sealane_parked_unit ON sealane_parked (route, unit, seq, state, next_attempt_at)
 WHERE state <> 'DISCARDED' AND skipped = 0 AND waits_for IS NULL;
CREATE INDEX sealane_parked_waiting ON sealane_parked (route, waits_for, seq)
 WHERE waits_for IS NOT NULL AND state = 'WAITING';

-- Counted with every heartbeat, past the rows that wait for a topic.
CREATE INDEX sealane_parked_failed ON sealane_parked (route, seq) WHERE state <> 'DISCARDED' AND waits_for IS NULL;

-- Order is kept within a topic, so the order key of a route that is ordered by key begins with the topic. Rows of other
-- orders stay as they are; such routes have rows whose order key is not the event's key.
UPDATE sealane_parked
   SET unit = coalesce(nullif(topic, ''), (SELECT o.topic FROM sealane_outbox o WHERE o.seq = sealane_parked.seq), '')
              || '/' || key
 WHERE route IN (SELECT route FROM sealane_parked GROUP BY route HAVING sum(unit <> key AND state <> 'DISCARDED') = 0);

-- Where events went that an operator sent to another topic than their own.
CREATE TABLE sealane_rerouted (
  route      TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  event_id   TEXT    NOT NULL,
  topic_from TEXT    NOT NULL,
  topic      TEXT    NOT NULL,
  at         INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                       + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  PRIMARY KEY (route, seq)
) STRICT, WITHOUT ROWID;

-- The order that the parked rows of a route were written with; null until a relay has run it.
ALTER TABLE sealane_route ADD COLUMN order_mode TEXT CHECK (order_mode IN ('key', 'tenant', 'global', 'none'));
