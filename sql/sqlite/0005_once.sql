-- Effects that happen once by what they are about and not by the event that asks for them: the same payment announced by
-- two different events. Kept for ever; a DELETE makes a key new again.
CREATE TABLE sealane_once (
  scope      TEXT    NOT NULL CHECK (length(CAST(scope AS BLOB)) BETWEEN 1 AND 255),
  key        TEXT    NOT NULL CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 1024),
  claimed_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                       + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000),
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
