#include "bench_inbox/contestant.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "bench_inbox/bare_kafka.hpp"
#include "bench_inbox/bare_loop.hpp"
#include "bench_inbox/our_consumer.hpp"
#include "common/session.hpp"

namespace sealane::bench {

Lap RunAlone(const Contestant& c) {
  return RunAgain(fmt::format("--alone {} '{}' '{}' {} {} {} {}", c.way, c.store, c.source, c.topic, c.events,
                              c.batch, c.workers));
}

int BeAlone(int argc, char** argv) {
  if (argc < 9) Fail("--alone takes WAY STORE SOURCE TOPIC EVENTS BATCH WORKERS");
  const Contestant contestant{.way = argv[2],
                              .store = argv[3],
                              .source = argv[4],
                              .topic = argv[5],
                              .events = std::strtoull(argv[6], nullptr, 10),
                              .batch = std::strtoull(argv[7], nullptr, 10),
                              .workers = std::strtoull(argv[8], nullptr, 10)};
  if (contestant.events == 0 || contestant.batch == 0 || contestant.workers == 0) Fail("--alone: nothing to do");
  const bool bare = contestant.way == "bare" || contestant.way == "pipelined";
  const bool memory = contestant.source == "memory";
  Tell(!bare ? RunConsumer(contestant) : memory ? RunBare(contestant) : RunBareFromKafka(contestant));
  return 0;
}

std::string UpsertSql(bool sqlite) {
  return fmt::format(
      "INSERT INTO effect AS e (id, events, payload) VALUES ({0}1, 1, {0}2)"
      " ON CONFLICT (id) DO UPDATE SET events = e.events + 1, payload = excluded.payload",
      sqlite ? '?' : '$');
}

}  // namespace sealane::bench
