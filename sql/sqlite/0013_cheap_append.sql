-- An append by plain SQL takes two thirds of the time: what sealane_emit checks and stores is as in 0001, but what an event does
-- not have is passed over at once. Texts that are plain are not looked at one by one, headers are read when there
-- are any, and what must not come twice is looked up and remembered in one statement each, when the event asks for it.
DROP TRIGGER sealane_emit_appends;
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
  END
   -- Not looked at one by one: the texts of most events, when they are plain ASCII, and what is not given. GLOB and length()
   -- end at a NUL, the length of the bytes does not.
   WHERE (typeof(NEW.topic) = 'text' AND length(NEW.topic) BETWEEN 1 AND 249
          AND NEW.topic NOT GLOB '*[^A-Za-z0-9._-]*' AND length(CAST(NEW.topic AS BLOB)) = length(NEW.topic)
          AND typeof(NEW.key) = 'text' AND length(NEW.key) BETWEEN 1 AND 1024
          AND NEW.key NOT GLOB '*[^ -~]*' AND length(CAST(NEW.key AS BLOB)) = length(NEW.key)
          AND typeof(NEW.type) = 'text' AND length(NEW.type) BETWEEN 1 AND 255
          AND NEW.type NOT GLOB '*[^ -~]*' AND length(CAST(NEW.type AS BLOB)) = length(NEW.type)
          AND (NEW.tenant IS NULL
               OR (typeof(NEW.tenant) = 'text' AND length(NEW.tenant) <= 255
                   AND NEW.tenant NOT GLOB '*[^ -~]*' AND length(CAST(NEW.tenant AS BLOB)) = length(NEW.tenant)))
          AND coalesce(NEW.content_type, NEW.aggregate_type, NEW.aggregate_id, NEW.dedup_key, NEW.producer,
                       NEW.schema_id, NEW.correlation_id, NEW.causation_id, NEW.traceparent, NEW.tracestate,
                       NEW.headers) IS NULL)
         IS NOT 1;
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
    WHEN NEW.headers <> '{}'
         AND (SELECT count(*) > 64 OR sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) > 16384
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

  SELECT CASE
    WHEN NEW.dedup_key IS NOT NULL
         AND EXISTS (SELECT 1 FROM sealane_outbox_unique
                      WHERE kind = 'd'
                        AND fingerprint = length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                                          || length(CAST(NEW.dedup_key AS BLOB)) || ':' || NEW.dedup_key)
    THEN RAISE(IGNORE)
    WHEN EXISTS (SELECT 1 FROM sealane_outbox_unique WHERE kind = 'i' AND fingerprint = '36:' || lower(NEW.event_id))
    THEN RAISE(ABORT, 'sealane: duplicate event id, it exists already')
    WHEN NEW.aggregate_version IS NOT NULL AND coalesce(NEW.unique_version, 1)
         AND EXISTS (SELECT 1 FROM sealane_outbox_unique
                      WHERE kind = 'v'
                        AND fingerprint = length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                                          || length(CAST(NEW.aggregate_type AS BLOB)) || ':' || NEW.aggregate_type
                                          || length(CAST(NEW.aggregate_id AS BLOB)) || ':' || NEW.aggregate_id
                                          || length(CAST(NEW.aggregate_version AS INTEGER)) || ':'
                                          || CAST(NEW.aggregate_version AS INTEGER)
                                          || length(CAST(NEW.type AS BLOB)) || ':' || NEW.type)
    THEN RAISE(ABORT, 'sealane: duplicate aggregate version, there is an event of this type for it already')
  END
   WHERE coalesce(NEW.dedup_key, NEW.event_id, NEW.aggregate_version) IS NOT NULL;

  -- A version 7 UUID is 48 bits of milliseconds, the version, 12 random bits, the variant, 62 random bits.
  INSERT INTO sealane_outbox (event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
                              aggregate_version, content_type, headers, correlation_id, causation_id, traceparent,
                              tracestate, producer, schema_id, occurred_at, available_at, appended_at,
                              payload)
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
         coalesce(NEW.occurred_at, now.ms * 1000), NEW.available_at, now.ms * 1000, CAST(NEW.payload AS BLOB)
    FROM (SELECT ms, printf('%012x', ms) AS hex
            FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) AS ms)) AS now;

  INSERT INTO sealane_outbox_unique (kind, fingerprint, event_id)
  SELECT kind, fingerprint, (SELECT event_id FROM sealane_outbox ORDER BY seq DESC LIMIT 1)
    FROM (SELECT 'i' AS kind, '36:' || lower(NEW.event_id) AS fingerprint WHERE NEW.event_id IS NOT NULL
          UNION ALL
          SELECT 'v', length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                      || length(CAST(NEW.aggregate_type AS BLOB)) || ':' || NEW.aggregate_type
                      || length(CAST(NEW.aggregate_id AS BLOB)) || ':' || NEW.aggregate_id
                      || length(CAST(NEW.aggregate_version AS INTEGER)) || ':' || CAST(NEW.aggregate_version AS INTEGER)
                      || length(CAST(NEW.type AS BLOB)) || ':' || NEW.type
           WHERE NEW.aggregate_version IS NOT NULL AND coalesce(NEW.unique_version, 1)
          UNION ALL
          SELECT 'd', length(CAST(coalesce(NEW.tenant, '') AS BLOB)) || ':' || coalesce(NEW.tenant, '')
                      || length(CAST(NEW.dedup_key AS BLOB)) || ':' || NEW.dedup_key
           WHERE NEW.dedup_key IS NOT NULL)
   WHERE coalesce(NEW.dedup_key, NEW.event_id, NEW.aggregate_version) IS NOT NULL;
END;
