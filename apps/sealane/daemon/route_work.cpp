// The one place where a relay gets its store and its broker.
#include "daemon/route_work.hpp"

#include "broker_factory.hpp"
#include "connect/owner_name.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

class RelayWork final : public RouteWork {
 public:
  RelayWork(const RouteSetup& setup, Clock& clock, Random& random, WrapPublisher wrap)
      : setup_(WithOwner(setup, random)),
        clock_(clock),
        wrap_(std::move(wrap)),
        relay_(
            setup_.options, [this] { return OpenLog(); }, [this] { return OpenPublisher(); }, clock, random) {}

  Status Check() override {
    SEALANE_ASSIGN_OR_RETURN(const auto log, OpenLog());
    SEALANE_RETURN_IF_ERROR(log->KeepOrder(ToString(setup_.options.order)));
    SEALANE_RETURN_IF_ERROR(OpenPublisher());
    return Ok();
  }
  RelayEnd Run(std::stop_token stop, bool until_drained) override { return relay_.Run(stop, until_drained); }
  RouteStats stats() const override { return relay_.stats(); }
  void Wake() override { relay_.Wake(); }

 private:
  static RouteSetup WithOwner(RouteSetup setup, Random& random) {
    setup.options.owner = NewOwner(setup.owner_base, random);
    return setup;
  }
  Result<std::unique_ptr<OutboxLog>> OpenLog() const {
    return OpenStoreLog(setup_.store, setup_.options.route, setup_.options.owner);
  }
  Result<std::unique_ptr<Publisher>> OpenPublisher() const {
    auto publisher = OpenBroker(setup_.broker, clock_);
    if (publisher && wrap_) return wrap_(*std::move(publisher));
    return publisher;
  }

  const RouteSetup setup_;
  Clock& clock_;
  const WrapPublisher wrap_;
  RouteRelay relay_;  // last: its threads use everything above
};

}  // namespace

std::unique_ptr<RouteWork> MakeRelayWork(const RouteSetup& setup, Clock& clock, Random& random, WrapPublisher wrap) {
  return std::make_unique<RelayWork>(setup, clock, random, std::move(wrap));
}

}  // namespace sealane::cli
