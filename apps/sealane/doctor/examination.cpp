#include "doctor/examination.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"
#include "broker_factory.hpp"
#include "connect/broker_url.hpp"
#include "connect/store_url.hpp"
#include "doctor/backlog.hpp"
#include "doctor/disk.hpp"
#include "doctor/judgement.hpp"
#include "doctor/topics.hpp"
#include "doctor/transport.hpp"
#include "journal/journal_reader.hpp"
#include "sqlite/sqlite_store.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

using enum Finding::Level;

std::string PropertyOf(const Settings& broker, const char* name) {
  const auto& properties = broker.Table(kKafkaTable);
  const auto found = properties.find(name);
  return found == properties.end() ? std::string() : found->second.value;
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

std::vector<Finding> ExamineDisk(const std::string& subject, const std::string& path) {
  const auto facts = ReadDisk(path);
  return facts ? JudgeDisk(subject, *facts) : std::vector{FindingFromError(subject, facts.error())};
}

/// A relay writes its leases into the file. Beginning a transaction tells whether it may, and leaves no trace.
Status TryWriting(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const auto outbox, OpenOutboxStore(store));
  SEALANE_ASSIGN_OR_RETURN(const auto transaction, outbox->Begin());
  return transaction->Rollback();
}

/// Whether a relay could open the journal. One that nobody has published to is made by the first relay, and not here.
Finding ExamineJournal(const std::string& subject, const Settings& broker, const BrokerTarget& target, Clock& clock) {
  const std::string url = RedactUrl(broker.Text(Key::kBrokerUrl));
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(target.location, ignored);
  const bool there = std::filesystem::exists(path, ignored);
  const std::string wanted = there ? path.string() : path.parent_path().string();
  if (::access(wanted.c_str(), W_OK) != 0) {
    return FindingFromError(
        subject, Error(ErrorKind::kMisconfigured, "journal_not_writable",
                       fmt::format("{} cannot be written: {}", EscapeForTerminal(wanted), std::strerror(errno)))
                     .WithHint("does the folder exist, and may this user write there?"));
  }
  if (!there) {
    return {kNotice,
            "journal_missing",
            subject,
            fmt::format("{} is not there yet; the first relay makes it", url),
            fmt::format("there is no file {}", path.string()),
            "sealane relay"};
  }
  const auto reader = JournalReader::Open(JournalOptionsOf(broker, target), clock);
  if (!reader) return FindingFromError(subject, reader.error());
  return {kGood, "usable", subject, fmt::format("{} can be used", url), {}, {}};
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
    const Status writable = TryWriting(store);
    findings.push_back(writable ? Finding{kGood,
                                          "reachable",
                                          subject,
                                          "the SQLite file can be used",
                                          fmt::format("SQLite {}", sqlite::LibraryVersion()),
                                          {}}
                                : FindingFromError(subject, writable.error()));
    Append(ExamineDisk(subject, target->location), findings);
    Append(ExamineBacklog(subject, store, clock.Now()), findings);
    return findings;
  }
  auto facts = postgres::Examine(PostgresOptionsOf(store), kLongTransaction, clock);
  if (!facts) {
    findings.push_back(FindingFromError(subject, facts.error()));
    return findings;
  }
  Append(JudgePostgres(subject, *facts), findings);
  Append(JudgePostgresTransport(subject, facts->hosts, facts->sslmode), findings);
  Append(ExamineBacklog(subject, store, clock.Now()), findings);
  return findings;
}

std::vector<Finding> ExamineBroker(const std::string& name, const Settings& broker, const BrokerDemands& demands,
                                   std::chrono::milliseconds limit, Clock& clock) {
  const std::string subject = fmt::format("broker {}", name);
  const auto target = ParseBrokerUrl(broker.Text(Key::kBrokerUrl));
  if (!target) return {FindingFromError(subject, target.error())};
  if (target->kind == BrokerKind::kKafka) {
    auto report =
        ProbeKafka(KafkaOptionsOf(broker), limit, clock, {.topics = demands.topics, .groups = demands.consumers});
    if (!report) return {FindingFromError(subject, report.error())};
    std::string mechanism = PropertyOf(broker, "sasl.mechanism");
    if (mechanism.empty()) mechanism = PropertyOf(broker, "sasl.mechanisms");
    std::vector<Finding> findings = JudgeKafka(subject, *report, mechanism);
    Append(JudgeKafkaTransport(subject, broker.Text(Key::kBrokerUrl), PropertyOf(broker, "security.protocol"),
                               PropertyOf(broker, "enable.ssl.certificate.verification"),
                               PropertyOf(broker, "ssl.endpoint.identification.algorithm")),
           findings);
    Append(JudgeTopics(subject, *report, demands.payload_max), findings);
    Append(JudgeLag(subject, report->groups), findings);
    return findings;
  }
  if (target->kind != BrokerKind::kJournal) {
    auto publisher = OpenBroker(broker, clock);
    if (!publisher) return {FindingFromError(subject, publisher.error())};
    const PublisherHealth health = (*publisher)->health();
    if (health.problem) return {FindingFromError(subject, *health.problem)};
    return {
        {kGood, "usable", subject, fmt::format("{} can be used", RedactUrl(broker.Text(Key::kBrokerUrl))), {}, {}}};
  }
  std::vector<Finding> findings = {ExamineJournal(subject, broker, *target, clock)};
  if (findings.front().level == kWrong) return findings;
  Append(ExamineDisk(subject, target->location), findings);
  const std::size_t limit_bytes = JournalOptionsOf(broker, *target).message_max_bytes;
  if (demands.payload_max >= limit_bytes) {
    findings.push_back(
        {kNotice, "journal_limit_below_payload", subject,
         "the journal refuses events that the outbox accepts; they would be dead",
         fmt::format("a message has at most {} bytes, outbox.payload_max is {}", limit_bytes, demands.payload_max),
         "lower outbox.payload_max"});
  }
  return findings;
}

}  // namespace sealane::cli
