// The program of consumer_crash_handler_test: a consumer through the public facade, with a handler that ends the
// process for one event.
//
//   consume_victim STORE BROKER CONSUMER TOPIC record|offsets POISON|none [stay]
//
// POISON is the id of that event. Ends when it has caught up; with `stay` at SIGTERM.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <sys/resource.h>

#include "sealane/inbox.hpp"

namespace {

using namespace sealane;

/// The table and the counters of ConsumePlace.
void WriteEffect(const std::string& consumer, const Envelope& event, HandlerTransaction& tx) {
  const SqlValue effect[] = {consumer, event.key, *event.aggregate.version, event.id.ToString(), consumer, event.key};
  ValueOrThrow(
      tx.Execute("INSERT INTO effects (consumer, key, version, event_id, before) VALUES ($1, $2, $3, $4,"
                 " coalesce((SELECT c.effects FROM counters c WHERE c.consumer = $5 AND c.key = $6), 0))",
                 effect));
  const SqlValue counter[] = {consumer, event.key};
  ValueOrThrow(
      tx.Execute("INSERT INTO counters (consumer, key, effects) VALUES ($1, $2, 1)"
                 " ON CONFLICT (consumer, key) DO UPDATE SET effects = counters.effects + 1",
                 counter));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const std::string consumer = argv[3];
  const std::string poison = argv[6];
  const bool stays = argc > 7;
  // Dying is what it is for; nobody needs to look into it.
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);

  Handlers handlers;
  handlers.On("OrderChanged", [&](const Envelope& event, HandlerTransaction& tx) {
    WriteEffect(consumer, event, tx);
    if (event.id.ToString() == poison) std::abort();
    return Decision::Done();
  });
  auto inbox = Inbox::Open({.store = argv[1],
                            .broker = argv[2],
                            .consumer = consumer,
                            .topics = {argv[4]},
                            .mode = *ParseInboxMode(argv[5]),
                            .workers = 2,
                            .batch_max = 5,
                            .retry = "brief",
                            .dead_letter_topic = "dead-letters",
                            .owner_team = "billing",
                            .criticality = "high",
                            .member = "m1"},
                           handlers);
  if (!inbox) return std::fprintf(stderr, "%s\n", inbox.error().ToString().c_str()), 3;
  std::thread terminator;
  if (stays) {
    terminator = std::thread([&] {
      int signal = 0;
      sigwait(&term, &signal);
      inbox->Stop();
    });
  }
  const Status end = stays ? inbox->Run() : inbox->RunUntilCaughtUp();
  if (terminator.joinable()) terminator.join();
  if (!end) return std::fprintf(stderr, "%s\n", end.error().ToString().c_str()), 4;
  return 0;
}
