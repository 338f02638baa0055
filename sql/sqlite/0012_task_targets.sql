-- Targets of tasks: pause and resume by an operator, and targets that dispatchers found to be down.

-- A target that an operator has paused: none of its tasks is claimed until the row is gone.
CREATE TABLE sealane_task_pause (
  target    TEXT    NOT NULL PRIMARY KEY CHECK (target <> ''),
  paused_at INTEGER NOT NULL,
  actor     TEXT    NOT NULL,
  reason    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- A target that a dispatcher found to be down; a row per dispatcher, gone when the target is back. For operators only:
-- what a dispatcher does follows from its own memory.
CREATE TABLE sealane_task_outage (
  target        TEXT    NOT NULL,
  owner         TEXT    NOT NULL,
  since         INTEGER NOT NULL,
  next_probe_at INTEGER NOT NULL,
  failures      INTEGER NOT NULL,
  code          TEXT,
  message       TEXT,
  PRIMARY KEY (target, owner)
) STRICT, WITHOUT ROWID;
