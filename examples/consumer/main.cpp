// Writes a bill for every order that was placed, once each, however often its event is delivered.
#include <cstdio>

#include "sealane/inbox.hpp"

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: consumer STORE BROKER TOPIC [caught-up]\n"), 2;

  // [consume]
  sealane::Handlers handlers;
  handlers.On("OrderPlaced", [](const sealane::Envelope& event, sealane::HandlerTransaction& tx) {
    const sealane::SqlValue bill[] = {event.key, event.payload};
    ValueOrThrow(tx.Execute("INSERT INTO bills (order_id, details) VALUES ($1, $2)", bill));
    return sealane::Decision::Done();
  });

  auto inbox = sealane::Inbox::Open({.store = argv[1], .broker = argv[2], .consumer = "billing", .topics = {argv[3]}},
                                    handlers);
  if (!inbox) return std::fprintf(stderr, "%s\n", inbox.error().ToString().c_str()), 1;
  const auto end = argc > 4 ? inbox->RunUntilCaughtUp() : inbox->Run();
  if (!end) return std::fprintf(stderr, "%s\n", end.error().ToString().c_str()), 1;
  // [/consume]
  std::printf("%llu bills\n", static_cast<unsigned long long>(inbox->stats().effects));
}
