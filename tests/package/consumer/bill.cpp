// Writes one bill for every order that was placed.
#include <cstdio>

#include <sealane/inbox.hpp>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  sealane::Handlers handlers;
  handlers.On("OrderPlaced", [](const sealane::Envelope& event, sealane::HandlerTransaction& tx) {
    const sealane::SqlValue bill[] = {event.key};
    ValueOrThrow(tx.Execute("INSERT INTO bills (order_id) VALUES ($1)", bill));
    return sealane::Decision::Done();
  });
  auto inbox = sealane::Inbox::Open(
      {.store = argv[1], .broker = argv[2], .consumer = "billing", .topics = {"orders"}}, handlers);
  if (!inbox) return std::fprintf(stderr, "%s\n", inbox.error().ToString().c_str()), 1;
  const auto end = inbox->RunUntilCaughtUp();
  if (!end) return std::fprintf(stderr, "%s\n", end.error().ToString().c_str()), 1;
  std::printf("%d bill\n", static_cast<int>(inbox->stats().effects));
}
