-- Tasks: calls to the outside world that were decided in a transaction, and every attempt at them.

INSERT INTO sealane_setting VALUES
  ('task_request_max_bytes', '1048576', 'Largest request that sealane_enqueue_task takes');

-- place is the order of enqueueing. Over are SUCCEEDED and DISCARDED ones. due_at stays as it is during an attempt, so
-- that a task that is given back is due as before. claimed_until: of a SENDING one, when its lease ends. tries:
-- attempts since a person last asked for a retry. waits: an earlier one with the same tenant, target and order key is
-- not over; kept in the row, because behind one task that is dead there can be a hundred thousand others.
-- claims: how often it was claimed, and so the fencing token; the number of an attempt that was given back comes again.
-- request_hash is null for tasks that came by plain SQL. status, code and message are of the last attempt that ended.
CREATE TABLE sealane_task (
  place           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  id              TEXT    NOT NULL UNIQUE,
  tenant          TEXT    NOT NULL DEFAULT '',
  target          TEXT    NOT NULL CHECK (target <> ''),
  operation       TEXT    NOT NULL CHECK (operation <> ''),
  idempotency_key TEXT    NOT NULL CHECK (idempotency_key <> ''),
  order_key       TEXT    CHECK (order_key <> ''),
  state           TEXT    NOT NULL DEFAULT 'PENDING'
                  CHECK (state IN ('PENDING', 'SENDING', 'FAILED', 'SUCCEEDED', 'DEAD', 'DISCARDED')),
  waits           INTEGER NOT NULL DEFAULT 0 CHECK (waits IN (0, 1)),
  in_doubt        INTEGER NOT NULL DEFAULT 0 CHECK (in_doubt IN (0, 1)),
  attempts        INTEGER NOT NULL DEFAULT 0,
  tries           INTEGER NOT NULL DEFAULT 0,
  claims          INTEGER NOT NULL DEFAULT 0,
  created_at      INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                            + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  not_before      INTEGER CHECK (not_before BETWEEN 0 AND 253402300799999999),
  due_at          INTEGER NOT NULL,
  claimed_until   INTEGER,
  ended_at        INTEGER,
  owner           TEXT,
  status          INTEGER,
  code            TEXT,
  message         TEXT,
  correlation_id  TEXT,
  causation_id    TEXT,
  traceparent     TEXT,
  result_topic    TEXT,
  result_key      TEXT,
  content_type    TEXT    NOT NULL DEFAULT 'application/json' CHECK (content_type <> ''),
  headers         TEXT    NOT NULL DEFAULT '{}',
  request_hash    TEXT,
  request         BLOB    NOT NULL CHECK (length(request) <= 16777216),
  UNIQUE (tenant, target, operation, idempotency_key)
) STRICT;
-- What can be claimed, and when. Neither what is over or dead nor what waits for its turn is in it.
CREATE INDEX sealane_task_due ON sealane_task (target, coalesce(claimed_until, due_at), place)
 WHERE NOT waits AND state IN ('PENDING', 'SENDING', 'FAILED');
-- Of each order at most one is not over and does not wait.
CREATE UNIQUE INDEX sealane_task_first ON sealane_task (tenant, target, order_key)
 WHERE order_key IS NOT NULL AND NOT waits AND state NOT IN ('SUCCEEDED', 'DISCARDED');
-- Who comes after whom.
CREATE INDEX sealane_task_order ON sealane_task (tenant, target, order_key, place)
 WHERE order_key IS NOT NULL AND state NOT IN ('SUCCEEDED', 'DISCARDED');
-- For counts and lists of what is not over.
CREATE INDEX sealane_task_open ON sealane_task (state, place) WHERE state NOT IN ('SUCCEEDED', 'DISCARDED');
-- For retention.
CREATE INDEX sealane_task_over ON sealane_task (target, ended_at) WHERE state IN ('SUCCEEDED', 'DISCARDED');

-- When the first of an order ends, the next one's turn has come.
CREATE TRIGGER sealane_task_wakes_next AFTER UPDATE OF state ON sealane_task
WHEN NEW.order_key IS NOT NULL AND NOT NEW.waits AND NEW.state IN ('SUCCEEDED', 'DISCARDED')
 AND OLD.state NOT IN ('SUCCEEDED', 'DISCARDED')
BEGIN
  UPDATE sealane_task SET waits = 0
   WHERE place = (SELECT place FROM sealane_task
                   WHERE tenant = NEW.tenant AND target = NEW.target AND order_key = NEW.order_key
                     AND order_key IS NOT NULL AND state NOT IN ('SUCCEEDED', 'DISCARDED') ORDER BY place LIMIT 1);
END;

-- A row per attempt, written when it begins, with the claim that began it. One without an end is under way, or its
-- dispatcher died.
CREATE TABLE sealane_task_attempt (
  task           INTEGER NOT NULL REFERENCES sealane_task (place) ON DELETE CASCADE,
  number         INTEGER NOT NULL,
  claim          INTEGER NOT NULL,
  owner          TEXT    NOT NULL,
  started_at     INTEGER NOT NULL,
  ended_at       INTEGER,
  verdict        TEXT    CHECK (verdict IN ('succeeded', 'retry', 'unknown', 'refused')),
  status         INTEGER,
  code           TEXT,
  message        TEXT,
  response       BLOB,
  response_cut   INTEGER NOT NULL DEFAULT 0 CHECK (response_cut IN (0, 1)),
  response_type  TEXT,
  retry_after_ms INTEGER,
  took_us        INTEGER,
  PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------------------------------------------------------------
-- Enqueueing, for every language that can run SQL:
--
--   INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request)
--   VALUES ('billing', '/charges', 'order-1', '{"amount":1}');
--
-- The other columns are optional. A text request is stored as its UTF-8 bytes, a blob as it is. The same task again
-- does nothing, with another request it is refused. Reading the view shows nothing.
CREATE VIEW sealane_enqueue_task AS
SELECT target, operation, idempotency_key, request, tenant, content_type, headers, order_key, not_before,
       correlation_id, causation_id, traceparent, result_topic, result_key
  FROM sealane_task
 WHERE 0;

CREATE TRIGGER sealane_enqueue_task_inserts INSTEAD OF INSERT ON sealane_enqueue_task
BEGIN
  -- As in sealane_emit: a text that is missing, too long, has a NUL or is not UTF-8 is named.
  SELECT CASE (
      SELECT field FROM (
          SELECT 'target' AS field, NEW.target AS value, 255 AS bytes_max, 1 AS required
          UNION ALL SELECT 'operation', NEW.operation, 1024, 1
          UNION ALL SELECT 'idempotency_key', NEW.idempotency_key, 1024, 1
          UNION ALL SELECT 'content_type', coalesce(NEW.content_type, 'application/json'), 255, 1
          UNION ALL SELECT 'tenant', NEW.tenant, 255, 0
          UNION ALL SELECT 'order_key', NEW.order_key, 1024, 0
          UNION ALL SELECT 'correlation_id', NEW.correlation_id, 512, 0
          UNION ALL SELECT 'causation_id', NEW.causation_id, 512, 0
          UNION ALL SELECT 'traceparent', NEW.traceparent, 512, 0
          UNION ALL SELECT 'result_topic', NEW.result_topic, 249, 0
          UNION ALL SELECT 'result_key', NEW.result_key, 1024, 0
          UNION ALL SELECT 'headers', NEW.headers, 32768, 0)
       WHERE (required AND coalesce(value, '') = '') OR length(CAST(value AS BLOB)) > bytes_max
          OR instr(value, char(0)) OR value GLOB '*' || char(65533) || '*' OR typeof(value) = 'blob'
       LIMIT 1)
    WHEN 'target' THEN RAISE(ABORT, 'sealane: target must be 1 to 255 bytes of UTF-8 without NUL')
    WHEN 'operation' THEN RAISE(ABORT, 'sealane: operation must be 1 to 1024 bytes of UTF-8 without NUL')
    WHEN 'idempotency_key' THEN RAISE(ABORT, 'sealane: idempotency_key must be 1 to 1024 bytes of UTF-8 without NUL')
    WHEN 'content_type' THEN RAISE(ABORT, 'sealane: content_type must be 1 to 255 bytes of UTF-8 without NUL')
    WHEN 'tenant' THEN RAISE(ABORT, 'sealane: tenant must be at most 255 bytes of UTF-8 without NUL')
    WHEN 'order_key' THEN RAISE(ABORT, 'sealane: order_key must be at most 1024 bytes of UTF-8 without NUL')
    WHEN 'correlation_id' THEN RAISE(ABORT, 'sealane: correlation_id must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'causation_id' THEN RAISE(ABORT, 'sealane: causation_id must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'traceparent' THEN RAISE(ABORT, 'sealane: traceparent must be at most 512 bytes of UTF-8 without NUL')
    WHEN 'result_topic' THEN RAISE(ABORT, 'sealane: result_topic must be at most 249 characters of A-Z a-z 0-9 . _ -')
    WHEN 'result_key' THEN RAISE(ABORT, 'sealane: result_key must be at most 1024 bytes of UTF-8 without NUL')
    WHEN 'headers' THEN RAISE(ABORT, 'sealane: headers must be a JSON object in UTF-8 text')
  END;
  SELECT CASE
    WHEN NEW.result_topic GLOB '*[^A-Za-z0-9._-]*' OR NEW.result_topic IN ('.', '..')
    THEN RAISE(ABORT, 'sealane: result_topic must be at most 249 characters of A-Z a-z 0-9 . _ -')
    WHEN NEW.operation GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
      OR NEW.idempotency_key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
      OR NEW.content_type GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
    THEN RAISE(ABORT, 'sealane: operation, idempotency_key and content_type have no control characters')
    WHEN NEW.request IS NULL
    THEN RAISE(ABORT, 'sealane: request is required')
    WHEN length(CAST(NEW.request AS BLOB)) >
         (SELECT CAST(value AS INTEGER) FROM sealane_setting WHERE name = 'task_request_max_bytes')
    THEN RAISE(ABORT, 'sealane: request is larger than the setting task_request_max_bytes')
    WHEN NEW.not_before NOT BETWEEN 0 AND 253402300799999999 OR typeof(NEW.not_before) NOT IN ('integer', 'null')
    THEN RAISE(ABORT, 'sealane: not_before is microseconds since 1970 UTC, below the year 10000')
    WHEN NEW.headers <> '{}' AND NOT json_valid(NEW.headers)
    THEN RAISE(ABORT, 'sealane: headers must be a JSON object in UTF-8 text')
    WHEN NEW.headers <> '{}' AND (json_type(NEW.headers) <> 'object' OR instr(NEW.headers, '\u0000')
         OR (SELECT count(*) > count(DISTINCT lower(key)) OR max(type <> 'text' OR key = '')
               FROM json_each(NEW.headers)))
    THEN RAISE(ABORT, 'sealane: headers are a JSON object of texts, each name once, without NUL')
    WHEN (SELECT count(*) > 64 OR sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) > 16384
                 OR max(value GLOB '*' || char(65533) || '*') OR max(key GLOB '*' || char(65533) || '*')
            FROM json_each(NEW.headers))
    THEN RAISE(ABORT, 'sealane: headers are at most 64 texts in UTF-8 and 16384 bytes')
    -- They become headers of HTTP: a line break would let whoever chose a value write headers of his own.
    WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers)
                  WHERE key GLOB '*[^!#$%&''*+.^_`|~0-9A-Za-z-]*' OR length(key) > 255
                     OR value GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*')
    THEN RAISE(ABORT, 'sealane: headers have characters that a header cannot have')
    WHEN (NEW.content_type IS NULL
          OR replace(lower(NEW.content_type), ' ', '') || ';' GLOB 'application/json;*'
          OR substr(replace(lower(NEW.content_type), ' ', '') || ';', 1,
                    instr(replace(lower(NEW.content_type), ' ', '') || ';', ';')) GLOB '*+json;')
         AND (NOT json_valid(CAST(NEW.request AS TEXT)) OR instr(CAST(NEW.request AS BLOB), x'00') > 0
              OR CAST(NEW.request AS TEXT) GLOB '*' || char(65533) || '*')
    THEN RAISE(ABORT, 'sealane: request is not JSON; send JSON, or say what it is with content_type')
  END;

  SELECT CASE WHEN request = CAST(NEW.request AS BLOB) AND content_type = coalesce(NEW.content_type, 'application/json')
                   AND json(headers) = json(coalesce(NEW.headers, '{}'))
              THEN RAISE(IGNORE)
              ELSE RAISE(ABORT, 'sealane: task conflict, it is there already with another request') END
    FROM sealane_task
   WHERE tenant = coalesce(NEW.tenant, '') AND target = NEW.target AND operation = NEW.operation
     AND idempotency_key = NEW.idempotency_key;

  INSERT INTO sealane_task (id, tenant, target, operation, idempotency_key, order_key, waits, created_at, not_before,
                            due_at, correlation_id, causation_id, traceparent, result_topic, result_key, content_type,
                            headers, request)
  SELECT substr(now.hex, 1, 8) || '-' || substr(now.hex, 9, 4)
         || '-7' || substr(lower(hex(randomblob(2))), 2)
         || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2)
         || '-' || lower(hex(randomblob(6))),
         coalesce(NEW.tenant, ''), NEW.target, NEW.operation, NEW.idempotency_key, nullif(NEW.order_key, ''),
         EXISTS (SELECT 1 FROM sealane_task
                  WHERE tenant = coalesce(NEW.tenant, '') AND target = NEW.target
                    AND order_key = nullif(NEW.order_key, '') AND order_key IS NOT NULL
                    AND state NOT IN ('SUCCEEDED', 'DISCARDED')),
         now.ms * 1000, NEW.not_before, coalesce(NEW.not_before, now.ms * 1000), nullif(NEW.correlation_id, ''),
         nullif(NEW.causation_id, ''), nullif(NEW.traceparent, ''), nullif(NEW.result_topic, ''),
         nullif(NEW.result_key, ''), coalesce(NEW.content_type, 'application/json'), coalesce(NEW.headers, '{}'),
         CAST(NEW.request AS BLOB)
    FROM (SELECT ms, printf('%012x', ms) AS hex
            FROM (SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000
                         + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) AS ms)) AS now;
END;
