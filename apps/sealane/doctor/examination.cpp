#include "doctor/examination.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "broker_factory.hpp"
#include "broker_url.hpp"
#include "doctor/judgement.hpp"
#include "store_factory.hpp"
#include "store_url.hpp"

namespace sealane::cli {
namespace {

using enum Finding::Level;

std::string PropertyOf(const Settings& broker, const char* name) {
  const auto& properties = broker.Table(kKafkaTable);
  const auto found = properties.find(name);
  return found == properties.end() ? std::string() : found->second.value;
}

}  // namespace

std::vector<Finding> ExamineStore(const std::string& name, const Settings& store, Clock& clock) {
  const std::string subject = fmt::format("store {}", name);
  auto migrator = OpenMigrator(store);
  if (!migrator) return {FindingFromError(subject, migrator.error())};
  auto state = (*migrator)->Examine();
  if (!state) return {FindingFromError(subject, state.error())};
  std::vector<Finding> findings = JudgeSchema(subject, *state);
  if (findings.front().level == kWrong) return findings;
  const auto target = ParseStoreUrl(store.Text(Key::kStoreUrl));
  if (target->kind != StoreKind::kPostgres) {
    // A relay writes its leases into the file: opening it the way a relay does tells whether it may.
    auto log = OpenStoreLog(store, "main", "doctor");
    findings.push_back(log ? Finding{kGood, "reachable", subject, "the SQLite file can be used", {}, {}}
                           : FindingFromError(subject, log.error()));
    return findings;
  }
  auto facts = postgres::Examine(PostgresOptionsOf(store), kLongTransaction, clock);
  if (!facts) {
    findings.push_back(FindingFromError(subject, facts.error()));
    return findings;
  }
  for (Finding& finding : JudgePostgres(subject, *facts)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> ExamineBroker(const std::string& name, const Settings& broker, std::chrono::milliseconds limit,
                                   Clock& clock) {
  const std::string subject = fmt::format("broker {}", name);
  const auto target = ParseBrokerUrl(broker.Text(Key::kBrokerUrl));
  if (!target) return {FindingFromError(subject, target.error())};
  if (target->kind == BrokerKind::kKafka) {
    auto report = ProbeKafka(KafkaOptionsOf(broker), limit, clock);
    if (!report) return {FindingFromError(subject, report.error())};
    std::string mechanism = PropertyOf(broker, "sasl.mechanism");
    if (mechanism.empty()) mechanism = PropertyOf(broker, "sasl.mechanisms");
    return JudgeKafka(subject, *report, mechanism);
  }
  auto publisher = OpenBroker(broker, clock);
  if (!publisher) return {FindingFromError(subject, publisher.error())};
  const PublisherHealth health = (*publisher)->health();
  if (health.problem) return {FindingFromError(subject, *health.problem)};
  return {{kGood, "usable", subject, fmt::format("{} can be used", RedactUrl(broker.Text(Key::kBrokerUrl))), {}, {}}};
}

}  // namespace sealane::cli
