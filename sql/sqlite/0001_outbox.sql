-- The outbox of one SQLite file: the same columns and promises as in PostgreSQL, under names that begin with sealane_
-- because a SQLite file has no schemas.
--
-- Needs SQLite 3.38 or newer (STRICT tables, JSON built in) and a file with encoding UTF-8. Every time is an integer,
-- microseconds since 1970 UTC: datetime(appended_at / 1000000, 'unixepoch') shows it to people.

CREATE TABLE sealane_migration (
  number     INTEGER NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  checksum   TEXT    NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

-- What an operator may tune without a new program. Triggers and statements read it; values are text.
CREATE TABLE sealane_setting (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  doc   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO sealane_setting VALUES
  ('payload_max_bytes', '921600', 'Largest payload that sealane_emit takes'),
  ('unique_memory_days', '30', 'How long own event ids, aggregate versions and dedup keys are remembered');

-- ---------------------------------------------------------------------------------------------------------------------
-- The log. Append-only: whether an event is published is told by sealane_cursor, not by its row. SQLite has one writer
-- at a time, so seq is commit order. AUTOINCREMENT keeps a seq from being used again after retention deleted the newest
-- rows; a cursor would otherwise skip its second holder.
CREATE TABLE sealane_outbox (
  seq               INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  event_id          TEXT    NOT NULL UNIQUE,
  tenant            TEXT    NOT NULL DEFAULT '',
  kind              TEXT    NOT NULL DEFAULT 'event',
  topic             TEXT    NOT NULL,
  key               TEXT    NOT NULL,
  type              TEXT    NOT NULL,
  schema_version    INTEGER NOT NULL DEFAULT 1,
  aggregate_type    TEXT,
  aggregate_id      TEXT,
  aggregate_version INTEGER,
  content_type      TEXT    NOT NULL DEFAULT 'application/json',
  headers           TEXT    NOT NULL DEFAULT '{}',
  correlation_id    TEXT,
  causation_id      TEXT,
  traceparent       TEXT,
  tracestate        TEXT,
  producer          TEXT,
  schema_id         TEXT,
  occurred_at       INTEGER NOT NULL,
  available_at      INTEGER,
  appended_at       INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                              + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  payload_hash      BLOB,  -- SHA-256; null for events that came by plain SQL, whose readers compute it
  payload           BLOB    NOT NULL,

  CONSTRAINT sealane_invalid_seq CHECK (seq >= 1),
  CONSTRAINT sealane_invalid_event_id CHECK (
    event_id GLOB '????????-????-????-????-????????????' AND event_id NOT GLOB '*[^0-9a-f-]*'
    AND length(replace(event_id, '-', '')) = 32 AND event_id <> '00000000-0000-0000-0000-000000000000'),
  CONSTRAINT sealane_invalid_kind CHECK (kind IN ('event', 'command')),
  CONSTRAINT sealane_invalid_topic CHECK (
    topic <> '' AND topic NOT GLOB '*[^A-Za-z0-9._-]*' AND topic NOT IN ('.', '..')),
  CONSTRAINT sealane_invalid_key CHECK (key <> ''),
  CONSTRAINT sealane_invalid_type CHECK (type <> ''),
  CONSTRAINT sealane_invalid_content_type CHECK (content_type <> ''),
  CONSTRAINT sealane_invalid_schema_version CHECK (schema_version BETWEEN 1 AND 2147483647),
  CONSTRAINT sealane_invalid_aggregate_version CHECK (aggregate_version >= 1),
  CONSTRAINT sealane_invalid_headers CHECK (headers = '{}' OR (json_valid(headers) AND json_type(headers) = 'object')),
  CONSTRAINT sealane_invalid_occurred_at CHECK (occurred_at BETWEEN 0 AND 253402300799999999),
  CONSTRAINT sealane_invalid_available_at CHECK (available_at BETWEEN 0 AND 253402300799999999),
  CONSTRAINT sealane_invalid_payload_hash CHECK (length(payload_hash) = 32),
  CONSTRAINT sealane_payload_too_large CHECK (length(payload) <= 16777216)
) STRICT;

CREATE TRIGGER sealane_outbox_is_immutable BEFORE UPDATE ON sealane_outbox
BEGIN
  SELECT RAISE(ABORT, 'sealane: outbox rows are immutable, append a new event instead');
END;

-- What a CHECK cannot see. INSERT OR REPLACE would replace a row silently, and a seq given by hand could stand behind a
-- cursor, where nobody would ever look; NEW.seq is -1 here when none was given.
CREATE TRIGGER sealane_outbox_is_appended BEFORE INSERT ON sealane_outbox
BEGIN
  SELECT RAISE(ABORT, 'sealane: duplicate event id, it exists already')
   WHERE EXISTS (SELECT 1 FROM sealane_outbox WHERE event_id = NEW.event_id);
  SELECT RAISE(ABORT, 'sealane: seq is given by the log, leave it out')
   WHERE NEW.seq BETWEEN 1 AND (SELECT max(seq) FROM sealane_outbox);
  SELECT RAISE(ABORT, 'sealane: headers are a JSON object of texts, each name once, without NUL')
   WHERE NEW.headers <> '{}' AND json_valid(NEW.headers)
     AND (json_type(NEW.headers) <> 'object' OR instr(NEW.headers, '\u0000')
          OR (SELECT count(*) > count(DISTINCT key) OR max(type <> 'text' OR key = '') FROM json_each(NEW.headers)));
END;

-- ---------------------------------------------------------------------------------------------------------------------
-- Uniqueness on request: what must not come twice, written only for events whose caller asked. kind: i = own event id,
-- v = aggregate version, d = dedup key. The fingerprint is the list of parts, each as its length in bytes, a colon and
-- the text, so that no two different lists look the same and people can read it.
CREATE TABLE sealane_outbox_unique (
  kind        TEXT    NOT NULL CHECK (kind IN ('i', 'v', 'd')),
  fingerprint TEXT    NOT NULL,
  event_id    TEXT    NOT NULL,
  created_at  INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                        + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  PRIMARY KEY (kind, fingerprint)
) STRICT, WITHOUT ROWID;
CREATE INDEX sealane_outbox_unique_created_at ON sealane_outbox_unique (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Progress: everything the relay writes. Rows per route and per failure, never per event.
CREATE TABLE sealane_route (
  name       TEXT    NOT NULL PRIMARY KEY
             CHECK (name GLOB '[a-z]*' AND name NOT GLOB '*[^a-z0-9_-]*' AND length(name) <= 63),
  created_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                       + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000)
) STRICT, WITHOUT ROWID;

-- Lease and cursor of a route. All of the log up to published_seq is done; what lies above it up to window_seq is being
-- published now, as long as the lease lives.
CREATE TABLE sealane_cursor (
  route         TEXT    NOT NULL PRIMARY KEY REFERENCES sealane_route (name) ON DELETE CASCADE,
  owner         TEXT,
  epoch         INTEGER NOT NULL DEFAULT 0,
  expires_at    INTEGER NOT NULL DEFAULT 0,
  published_seq INTEGER NOT NULL DEFAULT 0,
  window_seq    INTEGER NOT NULL DEFAULT 0,
  updated_at    INTEGER
) STRICT, WITHOUT ROWID;

-- When a cursor got where, so that a row can be told when it was published. Append-only, trimmed by age.
CREATE TABLE sealane_settlement (
  route  TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  seq_to INTEGER NOT NULL,
  at     INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                   + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  PRIMARY KEY (route, seq_to, at)
) STRICT, WITHOUT ROWID;

-- Events set aside because they failed (FAILED: will be retried, DEAD: waits for a person, DISCARDED: given up by one),
-- and their followers of the same key (WAITING).
CREATE TABLE sealane_parked (
  route           TEXT    NOT NULL REFERENCES sealane_route (name) ON DELETE CASCADE,
  seq             INTEGER NOT NULL,
  event_id        TEXT    NOT NULL,
  key             TEXT    NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('WAITING', 'FAILED', 'DEAD', 'DISCARDED')),
  attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 2147483647),
  next_attempt_at INTEGER,
  first_failed_at INTEGER,
  last_failed_at  INTEGER,
  error_code      TEXT,
  error_message   TEXT,
  PRIMARY KEY (route, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO sealane_route (name) VALUES ('main');
INSERT INTO sealane_cursor (route) VALUES ('main');

-- The life of every event on every route, for anybody with the sqlite3 shell. Payloads are not in it.
CREATE VIEW sealane_outbox_status AS
SELECT o.seq, o.event_id, r.name AS route,
       CASE
         WHEN p.state IN ('FAILED', 'DEAD', 'DISCARDED') THEN p.state
         WHEN p.state = 'WAITING' THEN 'PENDING'
         WHEN o.seq <= c.published_seq THEN 'PUBLISHED'
         WHEN o.seq <= c.window_seq
              AND c.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                 + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000 THEN 'PUBLISHING'
         ELSE 'PENDING'
       END AS status,
       coalesce(p.attempts, coalesce(o.seq <= c.published_seq, 0)) AS attempts,
       p.next_attempt_at,
       CASE WHEN p.state IS NULL AND o.seq <= c.published_seq THEN
         (SELECT s.at FROM sealane_settlement s
           WHERE s.route = r.name AND s.seq_to >= o.seq ORDER BY s.seq_to, s.at LIMIT 1)
       END AS published_at,
       p.error_code AS last_error_code, p.error_message AS last_error_message, p.first_failed_at, p.last_failed_at,
       o.appended_at, o.occurred_at, o.available_at, 0 AS lane, o.kind, o.tenant, o.topic, o.key, o.type,
       o.schema_version, o.aggregate_type, o.aggregate_id, o.aggregate_version, o.correlation_id, o.causation_id,
       o.producer, length(o.payload) AS payload_size
  FROM sealane_outbox o
 CROSS JOIN sealane_route r
  LEFT JOIN sealane_cursor c ON c.route = r.name
  LEFT JOIN sealane_parked p ON p.route = r.name AND p.seq = o.seq;

-- ---------------------------------------------------------------------------------------------------------------------
-- Appending, for every language that can run SQL:
--
--   INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('orders', 'o-1', 'OrderPlaced', '{"id":1}');
--
-- The other columns are optional. A text payload is stored as its UTF-8 bytes, a blob as it is. Choose an event_id to
-- know it, or read it in the same transaction: SELECT event_id FROM sealane_outbox ORDER BY seq DESC LIMIT 1.
-- A dedup_key that was used before makes the INSERT do nothing. Reading the view shows nothing.
CREATE VIEW sealane_emit AS
SELECT event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
       content_type, headers, correlation_id, causation_id, traceparent, tracestate, producer, schema_id, occurred_at,
       available_at, payload, '' AS dedup_key, 1 AS unique_version
  FROM sealane_outbox
 WHERE 0;

CREATE TRIGGER sealane_emit_appends INSTEAD OF INSERT ON sealane_emit
BEGIN
  -- A text that is missing, too long, has a NUL or is not UTF-8 is named. SQLite reads broken UTF-8 as U+FFFD, so that
  -- character is refused as well: where it stands, the text was damaged before it came here.
  SELECT CASE (
      SELECT field FROM (
          SELECT 'topic' AS field, NEW.topic AS value, 249 AS bytes_max, 1 AS required
          UNION ALL SELECT 'key', NEW.key, 1024, 1
          UNION ALL SELECT 'type', NEW.type, 255, 1
          UNION ALL SELECT 'content_type', coalesce(NEW.content_type, 'application/json'), 255, 1
          UNION ALL SELECT 'tenant', NEW.tenant, 255, 0
          UNION ALL SELECT 'aggregate_type', NEW.aggregate_type, 255, 0
          UNION ALL SELECT 'aggregate_id', NEW.aggregate_id, 1024, 0
          UNION ALL SELECT 'dedup_key', NEW.dedup_key, 1024, NEW.dedup_key IS NOT NULL
          UNION ALL SELECT 'producer', NEW.producer, 255, 0
          UNION ALL SELECT 'schema_id', NEW.schema_id, 255, 0
          UNION ALL SELECT 'correlation_id', NEW.correlation_id, 512, 0
          UNION ALL SELECT 'causation_id', NEW.causation_id, 512, 0
          UNION ALL SELECT 'traceparent', NEW.traceparent, 512, 0
          UNION ALL SELECT 'tracestate', NEW.tracestate, 512, 0
          UNION ALL SELECT 'headers', NEW.headers, 32768, 0)
       WHERE (required AND coalesce(value, '') = '') OR length(CAST(value AS BLOB)) > bytes_max
          OR instr(value, char(0)) OR value GLOB '*' || char(65533) || '*' OR typeof(value) = 'blob'
       LIMIT 1)
    WHEN 'topic' THEN RAISE(ABORT, 'sealane: topic must be 1 to 249 characters of A-Z a-z 0-9 . _ -')
    WHEN 'key' THEN RAISE(ABORT, 'sealane: key must be 1 to 1024 bytes of UTF-8 without NUL')
    WHEN 'type' THEN RAISE(ABORT, 'sealane: type must be 1 to 255 bytes of UTF-8 without NUL')
    WHEN 'content_type' THEN RAISE(ABORT, 'sealane: content_type must be 1 to 255 bytes of UTF-8 without NUL')
    WHEN 'tenant' THEN RAISE(ABORT, 'sealane: tenant must be at most 255 bytes of UTF-8 without NUL')
    WHEN 'aggregate_type' THEN RAISE(ABORT, 'sealane: aggregate_type must be at most 255 bytes of UTF-8 without NUL')
    WHEN 'aggregate_id' THEN RAISE(ABORT, 'sealane: aggregate_id must be at most 1024 bytes of UTF-8 without NUL')
    WHEN 'dedup_key' THEN RAISE(ABORT, 'sealane: dedup_key must be 1 to 1024 bytes of UTF-8 without NUL')
    WHEN 'producer' THEN RAISE(ABORT, 'sealane: producer must be at most 255 bytes of UTF-8 without NUL')
    WHEN 'schema_id' THEN RAISE(ABORT, 'sealane: schema_id must be at most 255 bytes of UTF-8 without NUL')
    WHEN 'correlation_id' THEN RAISE(ABORT, 'sealane: correlation_id must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'causation_id' THEN RAISE(ABORT, 'sealane: causation_id must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'traceparent' THEN RAISE(ABORT, 'sealane: traceparent must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'tracestate' THEN RAISE(ABORT, 'sealane: tracestate must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'headers' THEN RAISE(ABORT, 'sealane: headers must be a JSON object in UTF-8 text')
  END;
  SELECT CASE
    WHEN NEW.topic GLOB '*[^A-Za-z0-9._-]*' OR NEW.topic IN ('.', '..')
    THEN RAISE(ABORT, 'sealane: topic must be 1 to 249 characters of A-Z a-z 0-9 . _ -')
    WHEN NEW.payload IS NULL
    THEN RAISE(ABORT, 'sealane: payload is required')
    WHEN length(CAST(NEW.payload AS BLOB)) >
         (SELECT CAST(value AS INTEGER) FROM sealane_setting WHERE name = 'payload_max_bytes')
    THEN RAISE(ABORT, 'sealane: payload is larger than the setting payload_max_bytes')
    WHEN NEW.kind NOT IN ('event', 'command')
    THEN RAISE(ABORT, 'sealane: kind is event or command')
    WHEN NEW.schema_version < 1
    THEN RAISE(ABORT, 'sealane: schema_version is 1 or more')
    WHEN NEW.aggregate_version < 1
    THEN RAISE(ABORT, 'sealane: aggregate_version is 1 or more')
    WHEN (coalesce(NEW.aggregate_type, '') = '') <> (coalesce(NEW.aggregate_id, '') = '')
         OR (NEW.aggregate_version IS NOT NULL AND coalesce(NEW.aggregate_id, '') = '')
    THEN RAISE(ABORT, 'sealane: aggregate_type and aggregate_id go together, and aggregate_version needs both')
    WHEN NEW.occurred_at NOT BETWEEN 0 AND 253402300799999999 OR typeof(NEW.occurred_at) NOT IN ('integer', 'null')
    THEN RAISE(ABORT, 'sealane: occurred_at is microseconds since 1970 UTC, below the year 10000')
    WHEN NEW.available_at NOT BETWEEN 0 AND 253402300799999999 OR typeof(NEW.available_at) NOT IN ('integer', 'null')
    THEN RAISE(ABORT, 'sealane: available_at is microseconds since 1970 UTC, below the year 10000')
    WHEN NEW.headers <> '{}' AND NOT json_valid(NEW.headers)
    THEN RAISE(ABORT, 'sealane: headers must be a JSON object in UTF-8 text')
    WHEN (SELECT count(*) > 64 OR sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) > 16384
                 OR max(value GLOB '*' || char(65533) || '*') OR max(key GLOB '*' || char(65533) || '*')
            FROM json_each(NEW.headers))
    THEN RAISE(ABORT, 'sealane: headers are at most 64 texts in UTF-8 and 16384 bytes')
    WHEN (lower(NEW.content_type) IS NULL
          OR replace(lower(NEW.content_type), ' ', '') || ';' GLOB 'application/json;*'
          OR substr(replace(lower(NEW.content_type), ' ', '') || ';', 1,
                    instr(replace(lower(NEW.content_type), ' ', '') || ';', ';')) GLOB '*+json;')
         AND (NOT json_valid(CAST(NEW.payload AS TEXT)) OR instr(CAST(NEW.payload AS BLOB), x'00') > 0
              OR CAST(NEW.payload AS TEXT) GLOB '*' || char(65533) || '*')
    THEN RAISE(ABORT, 'sealane: payload is not JSON; send JSON, or say what it is with content_type')
  END;

  SELECT RAISE(IGNORE)
   WHERE NEW.dedup_key IS NOT NULL
     AND EXISTS (SELECT 1 FROM sealane_outbox_unique
                  WHERE kind = 'd'
                    AND fingerprint = length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                                      || length(CAST(NEW.dedup_key AS BLOB)) || ':' || NEW.dedup_key);
  SELECT RAISE(ABORT, 'sealane: duplicate event id, it exists already')
   WHERE EXISTS (SELECT 1 FROM sealane_outbox_unique WHERE kind = 'i' AND fingerprint = '36:' || lower(NEW.event_id));
  SELECT RAISE(ABORT, 'sealane: duplicate aggregate version, there is an event of this type for it already')
   WHERE NEW.aggregate_version IS NOT NULL AND coalesce(NEW.unique_version, 1)
     AND EXISTS (SELECT 1 FROM sealane_outbox_unique
                  WHERE kind = 'v'
                    AND fingerprint = length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                                      || length(CAST(NEW.aggregate_type AS BLOB)) || ':' || NEW.aggregate_type
                                      || length(CAST(NEW.aggregate_id AS BLOB)) || ':' || NEW.aggregate_id
                                      || length(CAST(NEW.aggregate_version AS INTEGER)) || ':'
                                      || CAST(NEW.aggregate_version AS INTEGER)
                                      || length(CAST(NEW.type AS BLOB)) || ':' || NEW.type);

  -- A version 7 UUID is 48 bits of milliseconds, the version, 12 random bits, the variant, 62 random bits.
  INSERT INTO sealane_outbox (event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
                              aggregate_version, content_type, headers, correlation_id, causation_id, traceparent,
                              tracestate, producer, schema_id, occurred_at, available_at, payload)
  SELECT coalesce(lower(NEW.event_id),
                  substr(now.hex, 1, 8) || '-' || substr(now.hex, 9, 4)
                  || '-7' || substr(lower(hex(randomblob(2))), 2)
                  || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2)
                  || '-' || lower(hex(randomblob(6)))),
         coalesce(NEW.tenant, ''), coalesce(NEW.kind, 'event'), NEW.topic, NEW.key, NEW.type,
         coalesce(NEW.schema_version, 1), nullif(NEW.aggregate_type, ''), nullif(NEW.aggregate_id, ''),
         NEW.aggregate_version, coalesce(NEW.content_type, 'application/json'), coalesce(NEW.headers, '{}'),
         nullif(NEW.correlation_id, ''), nullif(NEW.causation_id, ''), nullif(NEW.traceparent, ''),
         nullif(NEW.tracestate, ''), nullif(NEW.producer, ''), nullif(NEW.schema_id, ''),
         coalesce(NEW.occurred_at, now.ms * 1000), NEW.available_at, CAST(NEW.payload AS BLOB)
    FROM (SELECT ms, printf('%012x', ms) AS hex
            FROM (SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000
                         + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) AS ms)) AS now;

  INSERT INTO sealane_outbox_unique (kind, fingerprint, event_id)
  SELECT 'i', '36:' || lower(NEW.event_id), lower(NEW.event_id) WHERE NEW.event_id IS NOT NULL;
  INSERT INTO sealane_outbox_unique (kind, fingerprint, event_id)
  SELECT 'v', length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
              || length(CAST(NEW.aggregate_type AS BLOB)) || ':' || NEW.aggregate_type
              || length(CAST(NEW.aggregate_id AS BLOB)) || ':' || NEW.aggregate_id
              || length(CAST(NEW.aggregate_version AS INTEGER)) || ':' || CAST(NEW.aggregate_version AS INTEGER)
              || length(CAST(NEW.type AS BLOB)) || ':' || NEW.type,
         (SELECT event_id FROM sealane_outbox ORDER BY seq DESC LIMIT 1)
   WHERE NEW.aggregate_version IS NOT NULL AND coalesce(NEW.unique_version, 1);
  INSERT INTO sealane_outbox_unique (kind, fingerprint, event_id)
  SELECT 'd', length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
              || length(CAST(NEW.dedup_key AS BLOB)) || ':' || NEW.dedup_key,
         (SELECT event_id FROM sealane_outbox ORDER BY seq DESC LIMIT 1)
   WHERE NEW.dedup_key IS NOT NULL;
END;

-- ---------------------------------------------------------------------------------------------------------------------
-- Versions of aggregates, for callers that do not count themselves.
CREATE TABLE sealane_aggregate_version (
  tenant  TEXT    NOT NULL,
  type    TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  PRIMARY KEY (tenant, type, id)
) STRICT, WITHOUT ROWID;

-- Requests that run once. The claim, the business change and the response commit together.
CREATE TABLE sealane_idempotency (
  tenant         TEXT    NOT NULL,
  key            TEXT    NOT NULL,
  request_hash   TEXT    NOT NULL,
  claimed_at     INTEGER NOT NULL,
  patience_until INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  completed_at   INTEGER,
  status         INTEGER,
  body           BLOB,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sealane_idempotency_expires_at ON sealane_idempotency (expires_at);
