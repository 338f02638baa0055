#include "bench_relay/table_loops.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/session.hpp"
#include "common/stopwatch.hpp"
#include "postgres/log_rows.hpp"

namespace sealane::bench {
namespace {

constexpr int kBinary = 1;

std::string SelectAll() {
  return fmt::format("select {} from sealane.outbox o", postgres::LogColumns("o"));
}

double RateOfAll(const Stopwatch& watch, std::size_t rows, std::size_t events) {
  const double rate = watch.RateOf(events);
  if (rows != events) Fail(fmt::format("{} of {} rows were read", rows, events));
  return rate;
}

/// The sequence numbers of a binary result's first column as a bigint[] in text.
std::string ArrayOfSeqs(const PGresult* page) {
  std::string text = "{";
  for (int row = 0; row < PQntuples(page); ++row) {
    std::int64_t seq = 0;
    for (int i = 0; i < 8; ++i) seq = seq << 8 | static_cast<unsigned char>(PQgetvalue(page, row, 0)[i]);
    text += fmt::format("{}{}", row == 0 ? "" : ",", seq);
  }
  return text + "}";
}

}  // namespace

double ReadBySelect(const std::string& url, std::size_t events) {
  const Stopwatch watch;
  const Session session(url);
  if (PQsendQueryParams(session.get(), SelectAll().c_str(), 0, nullptr, nullptr, nullptr, nullptr, kBinary) == 0 ||
      PQsetSingleRowMode(session.get()) == 0) {
    Fail(PQerrorMessage(session.get()));
  }
  std::size_t rows = 0;
  while (PGresult* const result = PQgetResult(session.get())) {
    rows += static_cast<std::size_t>(PQntuples(session.Checked(result).get()));
  }
  return RateOfAll(watch, rows, events);
}

double ReadByCopy(const std::string& url, std::size_t events) {
  const Stopwatch watch;
  const Session session(url);
  session.Exec(fmt::format("copy ({}) to stdout (format binary)", SelectAll()));
  std::size_t messages = 0;
  char* row = nullptr;
  while (PQgetCopyData(session.get(), &row, 0) > 0) {
    ++messages;
    PQfreemem(row);
  }
  while (PGresult* const result = PQgetResult(session.get())) (void)session.Checked(result);
  return RateOfAll(watch, messages - 1, events);  // the last one is the trailer
}

double PublishBySkipLocked(const std::string& url, std::size_t events) {
  const Stopwatch watch;
  const Session session(url);
  session.Exec(
      "prepare mark as update reference.outbox set status = 'PUBLISHED', published_at = now()"
      " where seq = any ($1::bigint[])");
  session.Exec(
      fmt::format("prepare next as select {} from reference.outbox o where status = 'PENDING'"
                  " order by seq limit 500 for update skip locked",
                  postgres::LogColumns("o")));
  std::size_t done = 0;
  for (;;) {
    session.Exec("begin");
    const PgResult page =
        session.Checked(PQexecPrepared(session.get(), "next", 0, nullptr, nullptr, nullptr, kBinary));
    if (PQntuples(page.get()) > 0) {
      const std::string seqs = ArrayOfSeqs(page.get());
      const std::array values = {seqs.c_str()};
      (void)session.Checked(
          PQexecPrepared(session.get(), "mark", static_cast<int>(values.size()), values.data(), nullptr, nullptr, 0));
    }
    session.Exec("commit");
    if (PQntuples(page.get()) == 0) break;
    done += static_cast<std::size_t>(PQntuples(page.get()));
  }
  return RateOfAll(watch, done, events);
}

}  // namespace sealane::bench
