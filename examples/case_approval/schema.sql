-- The case service's own tables, in SQL that PostgreSQL and SQLite both take. Sealane's tables are made by
-- `sealane migrate up` in the same database, because they commit together with these.

CREATE TABLE tenant (
  tenant_id   TEXT PRIMARY KEY
);

-- Two tenants may use the same case id. Every statement names both.
CREATE TABLE case_file (
  tenant_id    TEXT NOT NULL REFERENCES tenant,
  case_id      TEXT NOT NULL,
  title        TEXT NOT NULL,
  private_note TEXT NOT NULL,           -- for the people who decide, and for nobody else
  status       TEXT NOT NULL CHECK (status IN ('OPEN', 'ASSIGNED', 'APPROVED')),
  assignee     TEXT NOT NULL,
  approved_by  TEXT NOT NULL,
  version      BIGINT NOT NULL,         -- counts the changes, and so the events
  PRIMARY KEY (tenant_id, case_id)
);
