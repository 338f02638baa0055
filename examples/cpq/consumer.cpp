// Opens approval cases, makes orders of accepted quotes, starts their fulfilment and bills them: each once.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sealane/inbox.hpp"

#include "handlers.hpp"
#include "topics.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: cpq_consumer STORE BROKER [CONSUMER [caught-up]]\n"), 2;
  using example::TopicOf;

  // Under a name of its own, for example a pod's, a process gets its partitions back at once when it is started
  // again.
  const char* const member = std::getenv("CPQ_MEMBER");
  auto inbox = sealane::Inbox::Open({.store = argv[1],
                                     .broker = argv[2],
                                     .consumer = argc > 3 ? argv[3] : "cpq",
                                     .topics = {TopicOf("quotes"), TopicOf("orders"), TopicOf("tasks")},
                                     .batch_max = 1,  // side effects: each event in a transaction of its own
                                     .member = member == nullptr ? "" : member},
                                    example::CpqHandlers());
  if (!inbox) return std::fprintf(stderr, "%s\n", inbox.error().ToString().c_str()), 1;
  const auto end = argc > 4 ? inbox->RunUntilCaughtUp() : inbox->Run();
  if (!end) return std::fprintf(stderr, "%s\n", end.error().ToString().c_str()), 1;
  const auto stats = inbox->stats();
  std::printf("%llu applied, %llu known already\n", static_cast<unsigned long long>(stats.effects),
              static_cast<unsigned long long>(stats.duplicates));
}
