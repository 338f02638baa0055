-- What the relay needs: membership, tenants that run apart, units that wait together, a record of what operators did.

-- Who is alive. A relay that stopped beating is not counted once its time is over.
CREATE TABLE sealane_relay_member (
  route      TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  owner      TEXT    NOT NULL,
  started_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                       + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (route, owner)
) STRICT, WITHOUT ROWID;

ALTER TABLE sealane_route ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));

-- Tenants with a position of their own: [{"tenants":["a","b"],"seq":17}, ...]. published_seq is for everybody else.
ALTER TABLE sealane_cursor ADD COLUMN apart TEXT CHECK (apart IS NULL OR json_valid(apart));

-- When which flow got where. tenants: those of a flow apart; null: everybody but except_tenants. The oldest rows have
-- the smallest rowid, so trimming looks at no others.
DROP VIEW sealane_outbox_status;
DROP TABLE sealane_settlement;
CREATE TABLE sealane_settlement (
  id             INTEGER NOT NULL PRIMARY KEY,
  route          TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  seq_to         INTEGER NOT NULL,
  at             INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                           + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  tenants        TEXT    CHECK (tenants IS NULL OR json_valid(tenants)),
  except_tenants TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(except_tenants))
) STRICT;
CREATE INDEX sealane_settlement_seq ON sealane_settlement (route, seq_to, at);

-- unit: what keeps order with the event and waits behind it. skipped: dead, but its followers go on without it.
ALTER TABLE sealane_parked ADD COLUMN unit TEXT NOT NULL DEFAULT '';
ALTER TABLE sealane_parked ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE sealane_parked ADD COLUMN topic TEXT NOT NULL DEFAULT '';
ALTER TABLE sealane_parked ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped IN (0, 1));
UPDATE sealane_parked SET unit = key;
-- Answers which units wait, which are due and who follows whom without touching the table.
CREATE INDEX sealane_parked_unit ON sealane_parked (route, unit, seq, state, next_attempt_at)
 WHERE state <> 'DISCARDED' AND skipped = 0;
CREATE INDEX sealane_parked_event ON sealane_parked (event_id);

CREATE TABLE sealane_tenant_rule (
  route    TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  tenant   TEXT    NOT NULL,
  paused   INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  rate_max INTEGER NOT NULL DEFAULT 0 CHECK (rate_max >= 0),
  weight   INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
  PRIMARY KEY (route, tenant)
) STRICT, WITHOUT ROWID;

-- Every change a person made. Written in the transaction of the change.
CREATE TABLE sealane_audit (
  id     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                   + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  actor  TEXT    NOT NULL CHECK (actor <> ''),
  action TEXT    NOT NULL,
  target TEXT    NOT NULL,
  reason TEXT    NOT NULL CHECK (reason <> '')
) STRICT;

-- The life of every event on every route, for anybody with the sqlite3 shell. Payloads are not in it. done_seq is how
-- far the event's tenant got, window_seq how far its flow is being published: a flow apart has no window of its own.
CREATE VIEW sealane_outbox_status AS
SELECT s.seq, s.event_id, s.route,
       CASE
         WHEN s.parked_state IN ('FAILED', 'DEAD', 'DISCARDED') THEN s.parked_state
         WHEN s.parked_state = 'WAITING' THEN 'PENDING'
         WHEN s.seq <= s.done_seq THEN 'PUBLISHED'
         WHEN s.seq <= s.window_seq
              AND s.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                 + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000 THEN 'PUBLISHING'
         ELSE 'PENDING'
       END AS status,
       coalesce(s.parked_attempts, coalesce(s.seq <= s.done_seq, 0)) AS attempts,
       s.next_attempt_at,
       CASE WHEN s.parked_state IS NULL AND s.seq <= s.done_seq THEN
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
               p.next_attempt_at, c.expires_at,
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
          LEFT JOIN sealane_parked p ON p.route = r.name AND p.seq = o.seq) s;
