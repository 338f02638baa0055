-- The payment service's own tables, in SQL that PostgreSQL and SQLite both take. Sealane's tables are made by
-- `sealane migrate up` in the same database, because they commit together with these.

CREATE TABLE payment (
  payment_id    TEXT PRIMARY KEY,
  merchant_id   TEXT NOT NULL,
  currency      TEXT NOT NULL,
  amount_minor  BIGINT NOT NULL CHECK (amount_minor BETWEEN 1 AND 1000000000000),
  card_number   TEXT NOT NULL,          -- known here and nowhere else; encrypt such a column in earnest
  status        TEXT NOT NULL DEFAULT 'AUTHORIZED'
                CHECK (status IN ('AUTHORIZED', 'CAPTURING', 'CAPTURE_UNKNOWN', 'CAPTURED', 'DECLINED')),
  capture_id    TEXT UNIQUE,            -- the provider's name for it
  version       BIGINT NOT NULL DEFAULT 0,   -- counts the events that were published about it
  capturing_since BIGINT NOT NULL DEFAULT 0  -- seconds since 1970
);

-- Double entry: debits are positive, credits negative, and those of a payment add up to zero.
CREATE TABLE ledger_posting (
  payment_id    TEXT NOT NULL REFERENCES payment,
  account       TEXT NOT NULL,
  merchant_id   TEXT NOT NULL,
  currency      TEXT NOT NULL,
  amount_minor  BIGINT NOT NULL,
  PRIMARY KEY (payment_id, account)     -- a second posting of a capture is refused by the database itself
);

-- Rows that must not exist; `payments balance` looks here.
CREATE VIEW ledger_fault AS
SELECT p.payment_id, p.status, count(l.account) AS postings, coalesce(sum(l.amount_minor), 0) AS off_by
FROM payment p LEFT JOIN ledger_posting l ON l.payment_id = p.payment_id
GROUP BY p.payment_id, p.status
HAVING coalesce(sum(l.amount_minor), 0) <> 0
    OR count(l.account) <> CASE WHEN p.status = 'CAPTURED' THEN 3 ELSE 0 END;
