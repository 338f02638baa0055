#include "bench_inbox/bare_loop.hpp"

#include <barrier>
#include <thread>
#include <vector>

#include "bench_inbox/feed.hpp"

namespace sealane::bench {

Lap RunWorkers(
    const Contestant& contestant,
    const std::function<void(std::size_t worker, Meter& meter, const std::function<void()>& start)>& work) {
  Meter meter;
  std::barrier ready(static_cast<std::ptrdiff_t>(contestant.workers));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < contestant.workers; ++i) {
    threads.emplace_back([&, i] { work(i, meter, [&ready] { ready.arrive_and_wait(); }); });
  }
  threads.clear();
  return meter.End(contestant.events);
}

Lap RunBare(const Contestant& contestant) {
  std::vector<ReceivedMessage> messages;
  Feed feed;
  for (std::size_t i = 0; i < contestant.events; ++i) messages.push_back(feed.Next());
  return RunWorkers(contestant, [&](std::size_t worker, Meter& meter, const std::function<void()>& start) {
    BareLoop loop(contestant, meter);
    start();
    for (const ReceivedMessage& message : messages) {
      if (static_cast<std::size_t>(message.partition.number) % contestant.workers != worker) continue;
      loop.Apply(message.key, message.value);
    }
    loop.Finish();
  });
}

}  // namespace sealane::bench
