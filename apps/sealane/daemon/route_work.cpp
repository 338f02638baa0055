// The one place where a relay gets its store and its broker.
#include "daemon/route_work.hpp"

#include "broker_factory.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

class RelayWork final : public RouteWork {
 public:
  RelayWork(const RouteSetup& setup, Clock& clock, Random& random)
      : setup_(WithOwner(setup, random)),
        clock_(clock),
        relay_(
            setup_.options, [this] { return OpenLog(); }, [this] { return OpenPublisher(); }, clock, random) {}

  Status Check() override {
    SEALANE_RETURN_IF_ERROR(OpenLog());
    SEALANE_RETURN_IF_ERROR(OpenPublisher());
    return Ok();
  }
  RelayEnd Run(std::stop_token stop, bool until_drained) override { return relay_.Run(stop, until_drained); }
  RelayStats stats() const override { return relay_.stats(); }
  void Wake() override { relay_.Wake(); }

 private:
  static RouteSetup WithOwner(RouteSetup setup, Random& random) {
    setup.options.owner = NewOwner(setup.owner_base, random);
    return setup;
  }
  Result<std::unique_ptr<OutboxLog>> OpenLog() const {
    return OpenStoreLog(setup_.store, setup_.options.route, setup_.options.owner);
  }
  Result<std::unique_ptr<Publisher>> OpenPublisher() const { return OpenBroker(setup_.broker, clock_); }

  const RouteSetup setup_;
  Clock& clock_;
  Relay relay_;  // last: its threads use everything above
};

}  // namespace

std::unique_ptr<RouteWork> MakeRelayWork(const RouteSetup& setup, Clock& clock, Random& random) {
  return std::make_unique<RelayWork>(setup, clock, random);
}

}  // namespace sealane::cli
