#include "bench_relay/kafka_loops.hpp"

#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bounded_queue.hpp"
#include "bench_relay/bare_message.hpp"
#include "bench_relay/bare_producer.hpp"
#include "common/session.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

struct CopiedReleaser {
  void operator()(char* row) const { PQfreemem(row); }
};
struct CopiedRow {
  std::unique_ptr<char, CopiedReleaser> bytes;
  std::size_t size = 0;
  std::string_view view() const { return {bytes.get(), size}; }
};
using CopiedPage = std::vector<CopiedRow>;

constexpr std::size_t kPageRows = 2'000;
constexpr std::size_t kPagesAhead = 8;

/// Hands pages of rows to `take`, which says whether it wants more.
template <class Take>
void ReadPages(const std::string& url, const Take& take) {
  const Session session(url);
  session.Exec(BareCopy());
  CopiedPage page;
  char* row = nullptr;
  for (int size = 0; (size = PQgetCopyData(session.get(), &row, 0)) > 0;) {
    page.push_back({std::unique_ptr<char, CopiedReleaser>(row), static_cast<std::size_t>(size)});
    if (page.size() < kPageRows) continue;
    if (!take(std::exchange(page, {}))) return;
    page.reserve(kPageRows);
  }
  take(std::move(page));
}

}  // namespace

double ProduceFromMemory(const std::string& url, const std::string& broker_url, const std::string& topic,
                         std::size_t events) {
  constexpr std::size_t kKept = 20'000;
  std::deque<BareMessage> messages;  // which never moves them: they point into themselves
  std::vector<CopiedPage> pages;
  ReadPages(url, [&](CopiedPage page) {
    pages.push_back(std::move(page));
    return pages.size() * kPageRows < kKept;
  });
  for (const CopiedPage& page : pages) {
    for (const CopiedRow& row : page) {
      if (!messages.emplace_back().Read(row.view())) messages.pop_back();
    }
  }
  const Stopwatch watch;
  BareProducer producer(broker_url, topic);
  for (std::size_t i = 0; i < events; ++i) producer.Produce(messages[i % messages.size()]);
  producer.Flush();
  return watch.RateOf(events);
}

double ProduceFromTable(const std::string& url, const std::string& broker_url, const std::string& topic,
                        std::size_t events) {
  const Stopwatch watch;
  BoundedQueue<CopiedPage> ahead(kPagesAhead);
  std::jthread reader([&](const std::stop_token& stop) {
    ReadPages(url, [&](CopiedPage page) { return ahead.Push(std::move(page), stop) == PushOutcome::kPushed; });
    ahead.Close();
  });
  BareProducer producer(broker_url, topic);
  BareMessage message;
  std::size_t produced = 0;
  while (const auto page = ahead.Pop({})) {
    for (const CopiedRow& row : *page) {
      if (!message.Read(row.view())) continue;
      producer.Produce(message);
      ++produced;
    }
  }
  producer.Flush();
  const double rate = watch.RateOf(events);
  if (produced != events) Fail(fmt::format("the bare loop read {} of {} rows", produced, events));
  return rate;
}

}  // namespace sealane::bench
