// Takes orders over HTTP and publishes each as an event, with a relay of its own inside.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "sealane/relay.hpp"

#include "order_service.hpp"

namespace {

using example::Database;
using example::Request;
using example::Response;

int Fail(const std::string& what) {
  std::fprintf(stderr, "order_service: %s\n", what.c_str());
  return 1;
}

/// What must not reach a client: it is told to come back, and with the same key that is safe.
Response TryAgain(const std::exception& error) {
  std::fprintf(stderr, "order_service: %s\n", error.what());
  return {503, R"({"error":"not now: repeat the request with the same Idempotency-Key"})"};
}

Response Guarded(const example::OrderService& service, const std::string& store, const Request& request) {
  // Each thread has a connection of its own, and a new one after whatever went wrong with it.
  thread_local std::unique_ptr<Database> database;
  try {
    if (!database) database = std::make_unique<Database>(store);
    return service.Answer(*database, request);
  } catch (const sealane::SealaneException& error) {
    if (error.error().kind() == sealane::ErrorKind::kRejected)
      return {400, R"({"error":"refused: is the key too long?"})"};
    database.reset();
    return TryAgain(error);
  } catch (const std::exception& error) {
    database.reset();
    return TryAgain(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8080);
  const std::string store = argc > 2 ? argv[2] : "sqlite:orders.db";
  const std::string broker = argc > 3 ? argv[3] : "journal:journal.db";
  const std::string topic = argc > 4 ? argv[4] : "orders";

  // Signals are waited for below; blocked before the first thread, so that none of them gets one.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  try {
    Database(store).Query("SELECT 1 FROM orders WHERE id = ''");
  } catch (const sealane::SealaneException& error) {
    return Fail(std::string(error.what()) + " (was schema.sql applied to this store?)");
  }
  // `brief`: five attempts for an event that the broker fails, 100 to 800 ms apart. One that is away is waited for.
  // The lease is how long the work of an instance that died waits for another, or for its own restart.
  auto relay =
      sealane::Relay::Open({.store = store, .broker = broker, .retry = "brief", .lease = std::chrono::seconds{3}});
  if (!relay) return Fail(relay.error().ToString());
  const std::jthread shipping([&](const std::stop_token& stop) {
    if (const auto end = relay->Run(stop); !end) Fail(end.error().ToString());
  });

  const example::OrderService service(topic);
  try {
    const example::HttpServer server(port, 4, [&](const Request& request) {
      Response response = Guarded(service, store, request);
      if (response.status == 201) relay->Wake();  // only spares the event the wait for the relay's next look
      return response;
    });
    std::printf("listening on http://127.0.0.1:%d\n", server.port());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
  } catch (const std::exception& error) {
    return Fail(error.what());
  }
}
