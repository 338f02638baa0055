-- The merchants' report: a read model in a database of its own, which can be thrown away and built again from the topic.

CREATE TABLE merchant_payment (
  payment_id      TEXT PRIMARY KEY,
  merchant_id     TEXT NOT NULL,
  status          TEXT NOT NULL,        -- pending, captured, declined
  currency        TEXT,
  amount_minor    BIGINT,
  net_minor       BIGINT,               -- what the merchant gets
  source_event_id TEXT NOT NULL,        -- kept by sealane::Project, which never lets a row go back
  source_version  BIGINT NOT NULL
);

CREATE VIEW merchant_report AS
SELECT merchant_id, currency, count(*) AS captures, sum(amount_minor) AS amount_minor, sum(net_minor) AS net_minor
FROM merchant_payment WHERE status = 'captured'
GROUP BY merchant_id, currency;
