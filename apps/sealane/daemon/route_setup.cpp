#include "daemon/route_setup.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "command.hpp"
#include "connect/owner_name.hpp"
#include "daemon/retry_setup.hpp"

namespace sealane::cli {
namespace {

// The values of a section's keys, in the order of the table, so that two of them can be compared.
void AddFingerprint(const Settings& settings, Section section, std::string& out) {
  for (const KeySpec& spec : Keys()) {
    if (SectionOf(spec) == section) out += settings.Text(spec.key) + '\0';
  }
  if (section == Section::kStore) out += settings.password().Reveal() + '\0';
  if (section != Section::kBroker) return;
  for (const FreeTable& table : FreeTables()) {
    for (const auto& [name, setting] : settings.Table(table.name)) out += name + '\0' + setting.value + '\0';
  }
}

constexpr RetryKeys kRetryKeys = {.preset = Key::kRouteRetryPreset,
                                  .first = Key::kRouteRetryFirst,
                                  .factor = Key::kRouteRetryFactor,
                                  .max = Key::kRouteRetryMax,
                                  .jitter = Key::kRouteRetryJitter,
                                  .attempts = Key::kRouteRetryAttempts};

RouteOptions OptionsOf(const Settings& program, const std::string& name, const Settings& route) {
  RouteOptions options;
  options.route = name;
  options.order = *ParseOrderMode(route.Text(Key::kRouteOrder));
  options.profile = *ParseWireProfile(route.Text(Key::kRouteProfile));
  options.wire.source = route.Text(Key::kRouteSource);
  options.topic_template = route.Text(Key::kRouteTopic);
  options.filter = {.topics = route.List(Key::kRouteFilterTopics),
                    .types = route.List(Key::kRouteFilterTypes),
                    .tenants = route.List(Key::kRouteFilterTenants),
                    .aggregate_types = route.List(Key::kRouteFilterAggregateTypes)};
  options.failures.retry = RetryOf(route, kRetryKeys);
  options.failures.dead_holds_followers = route.Truth(Key::kRouteDeadHoldsFollowers);
  options.failures.dead_letter_topic = route.Text(Key::kRouteDeadLetterTopic);
  options.fair = route.Truth(Key::kRouteFair);
  options.lease_ttl = program.Duration(Key::kRelayLease);
  options.settle_interval = program.Duration(Key::kRelaySettleInterval);
  options.poll_max = program.Duration(Key::kRelayPollMax);
  options.drain_timeout = program.Duration(Key::kRelayDrainTimeout);
  LimitMemory(options, program.Size(Key::kRelayMemoryMax));
  return options;
}

Status CheckRoute(const std::string& name, RouteOptions options) {
  options.owner = "any";
  if (auto checked = CheckOptions(options); !checked) {
    const Error& error = checked.error();
    return Error(ErrorKind::kMisconfigured, "bad_configuration", fmt::format("route {}: {}", name, error.message()))
        .WithHint(error.hint())
        .WithField(error.field());
  }
  return Ok();
}

Error BrokerNotSet(const std::string& route) {
  return Error(ErrorKind::kMisconfigured, "broker_not_set", fmt::format("route {} has no broker", route))
      .WithHint("use --broker journal:./journal.db, set SEALANE_BROKER__URL, or put broker.url into sealane.toml")
      .WithField("broker.url");
}

Error UnknownRoute(const Config& config, const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& route : config.routes()) known.push_back(route.first);
  const std::string_view meant = ClosestMatch(name, known);
  return BadUsage(fmt::format("--route: there is no route `{}`", EscapeForTerminal(name)),
                  meant.empty()
                      ? fmt::format("there are {}; add [route.{}] for a new one", fmt::join(known, ", "), name)
                      : fmt::format("did you mean `{}`?", meant),
                  "--route");
}

}  // namespace

Result<std::vector<RouteSetup>> PlanRoutes(const Config& config, const RouteSelection& selection) {
  for (const std::string& name : selection.routes) {
    if (!config.routes().contains(name)) return UnknownRoute(config, name);
  }
  std::vector<RouteSetup> setups;
  for (const auto& [name, route] : config.routes()) {
    const bool selected = selection.routes.empty() ||
                          std::find(selection.routes.begin(), selection.routes.end(), name) != selection.routes.end();
    if (!selected) continue;
    const std::string broker_name = selection.broker.value_or(route.Text(Key::kRouteBroker));
    const Settings& broker = *config.FindBroker(broker_name);
    if (!broker.Has(Key::kBrokerUrl)) return BrokerNotSet(name);
    const RouteOptions options = OptionsOf(config.program(), name, route);
    SEALANE_RETURN_IF_ERROR(CheckRoute(name, options));
    const std::vector<std::string> stores =
        selection.store ? std::vector<std::string>{*selection.store} : route.List(Key::kRouteStore);
    for (const std::string& store : stores) {
      RouteSetup setup{.options = options,
                       .owner_base = config.Text(Key::kRelayOwner),
                       .store = *config.FindStore(store),
                       .broker_name = broker_name,
                       .broker = broker,
                       .fingerprint = {}};
      setup.options.store = store;
      if (setup.owner_base.empty()) setup.owner_base = DefaultOwner();
      AddFingerprint(setup.store, Section::kStore, setup.fingerprint);
      AddFingerprint(setup.broker, Section::kBroker, setup.fingerprint);
      AddFingerprint(route, Section::kRoute, setup.fingerprint);
      for (const Key key : {Key::kRelayLease, Key::kRelaySettleInterval, Key::kRelayPollMax, Key::kRelayDrainTimeout,
                            Key::kRelayMemoryMax}) {
        setup.fingerprint += config.Text(key) + '\0';
      }
      setups.push_back(std::move(setup));
    }
  }
  return setups;
}

Status CheckRoutes(const Config& config) {
  for (const auto& [name, route] : config.routes()) {
    SEALANE_RETURN_IF_ERROR(CheckRoute(name, OptionsOf(config.program(), name, route)));
  }
  return Ok();
}

}  // namespace sealane::cli
