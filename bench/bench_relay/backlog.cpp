#include "bench_relay/backlog.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "postgres/postgres_store.hpp"

namespace sealane::bench {
namespace {

constexpr const char* kInsert = R"(
  insert into sealane.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, producer, content_type, headers, occurred_at, payload_size, payload,
     payload_hash)
  select gen_random_uuid(), sealane.lane_hash('order-' || n % 5000) % 64, '', 'event', 'orders', 'order-' || n % 5000,
         'OrderPlaced', 1, 'order', 'order-' || n % 5000, n / 5000 + 1, 'c-' || n, 'x-' || n,
         '00-' || md5('t' || n) || '-' || substr(md5('s' || n), 1, 16) || '-01', 'shop', 'application/json', '{{}}',
         clock_timestamp(), octet_length(payload), payload, sha256(payload)
    from (select n, convert_to(rpad(format('{{"order":%s,"customer":"%s","card":"%s","basket":"%s","note":"', n,
                                           md5('a' || n), md5('b' || n), md5('c' || n)), 298, 'thank you ')
                               || '"}}', 'UTF8') as payload
            from generate_series({}::bigint, {}::bigint) as n) as made)";

}  // namespace

void FillOutbox(const Session& session, const std::string& url, std::size_t events) {
  auto migrator = postgres::OpenMigrator({.url = url});
  if (!migrator) Fail(migrator.error().ToString());
  if (const auto applied = (*migrator)->Up(); !applied) Fail(applied.error().ToString());
  constexpr std::size_t kChunk = 20'000;  // events of one transaction
  for (std::size_t done = 0; done < events; done += kChunk) {
    session.Exec(fmt::format(kInsert, done + 1, std::min(done + kChunk, events)));
  }
  // What vacuum and the first reader after a load would write must not be counted against the first that is measured.
  if (events > 0) session.Exec("vacuum (analyze) sealane.outbox");
  session.Exec("checkpoint");
}

void FillReferenceTable(const Session& session) {
  session.Exec("set client_min_messages = warning");
  session.Exec("drop schema if exists reference cascade");
  session.Exec("create schema reference");
  session.Exec("create table reference.outbox (like sealane.outbox)");
  session.Exec(
      "alter table reference.outbox add status text not null default 'PENDING', add published_at timestamptz");
  session.Exec("insert into reference.outbox select * from sealane.outbox order by seq");
  session.Exec("alter table reference.outbox add primary key (seq)");
  session.Exec("create index outbox_pending on reference.outbox (seq) where status = 'PENDING'");
  session.Exec("vacuum (analyze) reference.outbox");
}

}  // namespace sealane::bench
