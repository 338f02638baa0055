#include "commands/dashboard.hpp"

#include <condition_variable>
#include <mutex>
#include <ostream>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "build_info.hpp"
#include "daemon/foreground.hpp"
#include "daemon/signal_waiter.hpp"
#include "dashboard/dashboard.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

class DashboardCommand final : public Command {
 public:
  std::string_view path() const override { return "dashboard"; }
  std::string_view summary() const override { return "show outbox, inboxes and tasks of a store in a browser"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane dashboard", "sealane dashboard --store postgres://operator@db/shop --listen 127.0.0.1:9000"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"--listen", "HOST:PORT", "an address of this machine alone (default: 127.0.0.1:8377)", &listen_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    const auto address = ParseListenAddress(listen_.value_or("127.0.0.1:8377"));
    if (!address) {
      return BadUsage(fmt::format("--listen: {}", address.error().message()), address.error().hint(), "--listen");
    }
    // What is wrong from the beginning is told here, and not on a page.
    if (const auto desk = OpenRouteDesk(config->store()); !desk) return context.WithPasteableHint(desk.error());
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    std::string flags = context.Pasteable("");
    if (!flags.empty()) flags.erase(0, 1);
    SEALANE_ASSIGN_OR_RETURN(const auto dashboard,
                             Dashboard::Start({.address = *address,
                                               .facts = {.version = LibraryVersions().at("version"),
                                                         .store = RedactUrl(config->store().Text(Key::kStoreUrl)),
                                                         .command_flags = std::move(flags)}},
                                              OpenersOf(config->store()), context.clock()));
    if (context.is_table()) {
      context.err() << "dashboard: " << dashboard->url() << '\n' << std::flush;
    } else {
      context.out() << JsonDocument().Text("apiVersion", kApiVersion).Text("dashboard", dashboard->url()).Finish()
                    << std::endl;
    }
    LogInfo("dashboard started",
            {{"address", dashboard->url()}, {"of", RedactUrl(config->store().Text(Key::kStoreUrl))}});
    RunInForeground(context, signals,
                    {.run =
                         [&](const std::stop_token& stop) {
                           std::mutex mutex;
                           std::condition_variable_any stopped;
                           std::unique_lock lock(mutex);
                           stopped.wait(lock, stop, [] { return false; });
                           dashboard->Stop();  // here, where a second signal ends the wait for a store
                           return Ok();
                         },
                     .progress = [&] { return dashboard->Progress(); },
                     .stopping = "closing the dashboard",
                     .left_behind = "nothing"});
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> listen_;
};

}  // namespace

std::unique_ptr<Command> MakeDashboardCommand() {
  return std::make_unique<DashboardCommand>();
}

}  // namespace sealane::cli
