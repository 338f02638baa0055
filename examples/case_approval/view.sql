-- The read model: in a database of its own, kept by `case_approval view`.

CREATE TABLE case_view (
  tenant_id       TEXT NOT NULL,
  case_id         TEXT NOT NULL,
  title           TEXT,
  status          TEXT NOT NULL,
  assignee        TEXT,
  approved_by     TEXT,
  source_event_id TEXT NOT NULL,        -- kept by sealane::Project, which never lets a row go back
  source_version  BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, case_id)
);
