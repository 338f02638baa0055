-- For PostgreSQL and SQLite alike. Sealane's own tables come from `sealane migrate up`.

-- Sales: what the desk writes.
CREATE TABLE IF NOT EXISTS quote (
  id       TEXT PRIMARY KEY,
  customer TEXT NOT NULL,
  total    BIGINT NOT NULL,  -- cents
  status   TEXT NOT NULL     -- SUBMITTED, APPROVED, ACCEPTED
);

-- Approvals: a read model for those who approve, as of the newest event that was seen (sealane/projection.hpp).
CREATE TABLE IF NOT EXISTS approval_case (
  quote_id        TEXT PRIMARY KEY,
  customer        TEXT,
  total           BIGINT,
  status          TEXT NOT NULL,  -- OPEN, CLOSED
  source_event_id TEXT NOT NULL,
  source_version  BIGINT NOT NULL
);

-- Orders. One for each quote, whoever converts it how often: this constraint says so, not a lookup before the insert.
CREATE TABLE IF NOT EXISTS customer_order (
  id               TEXT PRIMARY KEY,
  quote_id         TEXT NOT NULL UNIQUE,
  customer         TEXT NOT NULL,
  total            BIGINT NOT NULL,
  status           TEXT NOT NULL,  -- CREATED, COMPLETED
  billing          TEXT NOT NULL DEFAULT 'NOT_DUE',  -- REQUESTED, CHARGED, FAILED
  process_instance TEXT            -- what the workflow engine calls it
);
