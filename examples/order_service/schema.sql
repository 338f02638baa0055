-- For PostgreSQL and SQLite alike. Sealane's own tables come from `sealane migrate up`.
CREATE TABLE IF NOT EXISTS orders (
  id         TEXT PRIMARY KEY,
  customer   TEXT NOT NULL,
  items      TEXT NOT NULL,    -- JSON, as it was ordered
  total      BIGINT NOT NULL,  -- cents
  status     TEXT NOT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE IF NOT EXISTS order_audit (
  order_id    TEXT NOT NULL REFERENCES orders (id),
  action      TEXT NOT NULL,
  request_key TEXT NOT NULL,
  at          TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (order_id, action)
);
