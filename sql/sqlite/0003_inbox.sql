-- The consuming side: what each consumer has seen, what it has set aside, and how far it is in each partition. Every
-- consumer has a namespace of its own.

-- A consumer keeps its mode. Receipts of events filed before forgotten_before may be gone.
CREATE TABLE sealane_inbox_consumer (
  consumer         TEXT    NOT NULL PRIMARY KEY CHECK (consumer <> ''),
  mode             TEXT    NOT NULL CHECK (mode IN ('record', 'offsets')),
  forgotten_before INTEGER NOT NULL DEFAULT 0,
  created_at       INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                             + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000)
) STRICT, WITHOUT ROWID;

-- One receipt per event, in mode record. filed_at is a time of the event itself, so that it is the same however often
-- the event comes. What could not be read has no type.
CREATE TABLE sealane_inbox (
  consumer          TEXT    NOT NULL REFERENCES sealane_inbox_consumer (consumer),
  event_id          TEXT    NOT NULL,
  filed_at          INTEGER NOT NULL,
  state             TEXT    NOT NULL
                    CHECK (state IN ('PROCESSED', 'IGNORED', 'RECEIVED', 'GAP', 'FAILED', 'DEAD', 'SKIPPED')),
  type              TEXT,
  schema_version    INTEGER,
  tenant            TEXT    NOT NULL DEFAULT '',
  aggregate_type    TEXT,
  aggregate_id      TEXT,
  aggregate_version INTEGER,
  topic             TEXT    NOT NULL,
  partition         INTEGER NOT NULL,
  "offset"          INTEGER NOT NULL,
  correlation_id    TEXT,
  payload_hash      BLOB    NOT NULL CHECK (length(payload_hash) = 32),
  received_at       INTEGER NOT NULL,
  finished_at       INTEGER,
  code              TEXT,
  message           TEXT,
  PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;
-- What retention looks for.
CREATE INDEX sealane_inbox_finished ON sealane_inbox (consumer, filed_at) WHERE state IN ('PROCESSED', 'IGNORED');

-- Messages that were set aside, as they came. place is the order they came in. unit: what keeps order with the message
-- and waits behind it. gap_until: when a missing version is given up; next_attempt_at is earlier when it has come.
-- headers: for each its name and its value, both as four bytes of length, least first, and the bytes.
CREATE TABLE sealane_inbox_parked (
  place             INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  consumer          TEXT    NOT NULL REFERENCES sealane_inbox_consumer (consumer),
  event_id          TEXT    NOT NULL,
  unit              BLOB    NOT NULL,
  state             TEXT    NOT NULL CHECK (state IN ('RECEIVED', 'GAP', 'FAILED', 'DEAD', 'SKIPPED')),
  attempts          INTEGER NOT NULL DEFAULT 0,
  next_attempt_at   INTEGER,
  gap_until         INTEGER,
  claimed_until     INTEGER,
  parked_at         INTEGER NOT NULL,
  first_failed_at   INTEGER,
  last_failed_at    INTEGER,
  error_code        TEXT,
  error_message     TEXT,
  type              TEXT,
  tenant            TEXT    NOT NULL DEFAULT '',
  aggregate_type    TEXT,
  aggregate_id      TEXT,
  aggregate_version INTEGER,
  filed_at          INTEGER NOT NULL,
  payload_hash      BLOB    NOT NULL CHECK (length(payload_hash) = 32),
  topic             TEXT    NOT NULL,
  partition         INTEGER NOT NULL,
  "offset"          INTEGER NOT NULL,
  published_at      INTEGER NOT NULL,
  key               BLOB    NOT NULL,
  value             BLOB    NOT NULL,
  headers           BLOB    NOT NULL
) STRICT;
-- An id that came with other bytes may be there more than once.
CREATE INDEX sealane_inbox_parked_event ON sealane_inbox_parked (consumer, event_id);
-- Which units wait, which are due and who follows whom: in the order they came, and for the aggregate of the first in
-- the order of its versions.
CREATE INDEX sealane_inbox_parked_unit ON sealane_inbox_parked (consumer, unit, place) WHERE state <> 'SKIPPED';
CREATE INDEX sealane_inbox_parked_version
    ON sealane_inbox_parked (consumer, unit, tenant, aggregate_type, aggregate_id, aggregate_version, place)
    WHERE state <> 'SKIPPED' AND aggregate_version IS NOT NULL;
-- Units in which something waits for its time; what waits for a person alone is not looked at again and again.
CREATE INDEX sealane_inbox_parked_waiting ON sealane_inbox_parked (consumer, unit)
    WHERE state IN ('RECEIVED', 'GAP', 'FAILED');

-- What a person gave up is cleared away after a time.
CREATE INDEX sealane_inbox_parked_skipped ON sealane_inbox_parked (consumer, parked_at) WHERE state = 'SKIPPED';

-- The version of each aggregate that a consumer has seen last, where it asked for that.
CREATE TABLE sealane_inbox_version (
  consumer TEXT    NOT NULL REFERENCES sealane_inbox_consumer (consumer),
  tenant   TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  version  INTEGER NOT NULL,
  PRIMARY KEY (consumer, tenant, type, id)
) STRICT, WITHOUT ROWID;

-- Who has a partition (epoch grows with every owner) and, in mode offsets, how far it is. clean: the last owner said
-- goodbye. deaths: how many in a row did not. suspect_offset: the event that is being handled, by whom (suspect_epoch),
-- and how many owners died there in a row.
CREATE TABLE sealane_inbox_partition (
  consumer       TEXT    NOT NULL REFERENCES sealane_inbox_consumer (consumer),
  topic          TEXT    NOT NULL,
  partition      INTEGER NOT NULL,
  epoch          INTEGER NOT NULL DEFAULT 0,
  next_offset    INTEGER,
  clean          INTEGER NOT NULL DEFAULT 1 CHECK (clean IN (0, 1)),
  deaths         INTEGER NOT NULL DEFAULT 0,
  suspect_offset INTEGER,
  suspect_epoch  INTEGER,
  suspect_deaths INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (consumer, topic, partition)
) STRICT, WITHOUT ROWID;

-- In mode offsets: the events of the newest batches, so that one that was published twice is known again. ids: 16
-- bytes each, one row per batch.
CREATE TABLE sealane_inbox_recent (
  id             INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  consumer       TEXT    NOT NULL REFERENCES sealane_inbox_consumer (consumer),
  topic          TEXT    NOT NULL,
  partition      INTEGER NOT NULL,
  through_offset INTEGER NOT NULL,
  ids            BLOB    NOT NULL CHECK (length(ids) % 16 = 0)
) STRICT;
CREATE INDEX sealane_inbox_recent_partition
    ON sealane_inbox_recent (consumer, topic, partition, through_offset);
