#include "support/consumer_change.hpp"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/server_change.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;

constexpr const char* kEffects =
    "CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, consumer text, key text, n bigint, event_id text,"
    " part integer, place bigint)";
constexpr const char* kScript =
    "INSERT INTO effects (consumer, key, n, event_id, part, place)\n"
    "VALUES (:consumer, :key, :aggregate_version, :event_id, :partition, :offset);\n";
constexpr const char* kProbes = "probes=http://127.0.0.1:";

}  // namespace

ConsumerChangeRun::ConsumerChangeRun(std::uint64_t seed, const Options& options) : options_(options), random_(seed) {
  topic_ = FreshTopic(KafkaUrl(), options.partitions);
  if (options.own_server) {
    server_ = options.archive ? ChangingPostgres::StartWithArchive() : ChangingPostgres::Start();
    PgSession(server_->Url()).Exec("CREATE DATABASE shop");
    Migrate(server_->Url("shop"));
    proxy_ = std::make_unique<TcpProxy>(server_->port());
  } else {
    database_ = std::make_unique<ScratchDatabase>(kMigrated);
  }
  Prepare();
  std::ofstream(place_.folder() + "/effect.sql") << kScript;
  load_ = std::make_unique<TopicLoad>(topic_, seed);
}

ConsumerChangeRun::~ConsumerChangeRun() {
  load_.reset();
  consumers_.clear();
  session_.reset();
}

void ConsumerChangeRun::Prepare() {
  Store().Exec(kEffects);
}

int ConsumerChangeRun::Draw(int below) {
  return static_cast<int>(random_() % static_cast<std::uint64_t>(below));
}

// ---- who runs ----------------------------------------------------------------------------------------------------

std::vector<std::string> ConsumerChangeRun::ConsumeArguments(const std::string& mode) const {
  std::vector<std::string> arguments = {
      "consume", "--consumer", Consumer(mode), "--topic",  topic_,   "--sql", place_.folder() + "/effect.sql",
      "--store", Url(),        "--broker",     KafkaUrl(), "--mode", mode,    "--batch",
      "20"};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  return arguments;
}

void ConsumerChangeRun::StartConsumers() {
  for (const std::string& mode : options_.modes) {
    std::vector<std::string> command = ConsumeArguments(mode);
    command.insert(command.begin(), SEALANE_TEST_BINARY);
    command.insert(command.end(), {"--listen", "127.0.0.1:0"});
    consumers_[mode] = std::make_unique<RunningProgram>("consumer-" + mode, command,
                                                        std::map<std::string, std::string>{}, place_.folder());
  }
  for (const auto& [mode, consumer] : consumers_) consumer->PortAfter(kProbes);
}

void ConsumerChangeRun::StopConsumers() {
  for (const auto& [mode, consumer] : consumers_) EXPECT_EQ(consumer->Stop(), 0) << mode << "\n" << Logs();
  consumers_.clear();
}

void ConsumerChangeRun::SignalConsumers(int signal) const {
  for (const auto& [mode, consumer] : consumers_) consumer->Signal(signal);
}

CommandResult ConsumerChangeRun::CatchUp(const std::string& mode, const std::string& timeout) const {
  std::vector<std::string> arguments = ConsumeArguments(mode);
  arguments.insert(arguments.end(), {"--until", "caught-up", "--timeout", timeout});
  return RunSealane(arguments, {}, {}, place_.folder());
}

std::unique_ptr<RunningProgram> ConsumerChangeRun::StartCatchUp(const std::string& mode) const {
  std::vector<std::string> command = ConsumeArguments(mode);
  command.insert(command.begin(), SEALANE_TEST_BINARY);
  command.insert(command.end(), {"--until", "caught-up", "--timeout", "90s"});
  return std::make_unique<RunningProgram>("catch-up-" + mode, command, std::map<std::string, std::string>{},
                                          place_.folder());
}

// ---- the store ---------------------------------------------------------------------------------------------------

std::string ConsumerChangeRun::Url() const {
  return database_ ? database_->url() : fmt::format("postgresql://postgres@127.0.0.1:{}/shop", proxy_->port());
}

PgSession& ConsumerChangeRun::Store() {
  if (!session_) session_ = std::make_unique<PgSession>(database_ ? database_->url() : server_->Url("shop"));
  return *session_;
}

void ConsumerChangeRun::TakeAway() {
  proxy_->Point(0, true);
}

void ConsumerChangeRun::ReplaceServer(ChangingPostgres::Ptr other) {
  session_.reset();
  proxy_->Point(other->port(), true);
  server_ = std::move(other);
}

void ConsumerChangeRun::MakeStoreAnew() {
  session_.reset();
  PgSession cluster(ClusterUrl());
  cluster.Exec(fmt::format("DROP DATABASE {} WITH (FORCE)", database_->name()));
  cluster.Exec(fmt::format("CREATE DATABASE {}", database_->name()));
  Migrate(database_->url());
  Prepare();
}

void ConsumerChangeRun::MakeTopicAnew(int partitions) {
  DeleteTopic(KafkaUrl(), topic_);
  CreateTopic(KafkaUrl(), topic_, partitions);
}

CommandResult ConsumerChangeRun::Sealane(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--store", Url()});
  return RunSealane(arguments, {}, {{"USER", "ann"}}, place_.folder());
}

void ConsumerChangeRun::Resume(const std::string& mode, const std::string& from, int partition) {
  std::vector<std::string> words = {"inbox",  "resume", "--consumer", Consumer(mode), "--topic", topic_,
                                    "--from", from,     "--reason",   "test",         "--yes"};
  if (partition >= 0) words.insert(words.end(), {"--partition", std::to_string(partition)});
  const CommandResult result = Sealane(words);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

json ConsumerChangeRun::Positions(const std::string& mode) const {
  const CommandResult result = Sealane({"inbox", "position", "--consumer", Consumer(mode), "-o", "json"});
  const json document = json::parse(result.out, nullptr, false);
  return document.is_object() && document.contains("positions") ? document["positions"] : json::array();
}

std::set<std::string> ConsumerChangeRun::Stops(const std::string& mode) const {
  std::set<std::string> codes;
  for (const json& one : Positions(mode)) {
    if (one.value("state", "") == "stopped") codes.insert(one.value("stop_code", ""));
  }
  return codes;
}

// ---- what holds --------------------------------------------------------------------------------------------------

int ConsumerChangeRun::Applied(const std::string& mode) {
  return std::stoi(Store().Exec(
      fmt::format("SELECT count(DISTINCT event_id) FROM effects WHERE consumer = '{}'", Consumer(mode))));
}

std::map<std::string, KafkaRecord> ConsumerChangeRun::ReadEvents() const {
  std::map<std::string, KafkaRecord> events;
  for (KafkaRecord& record : ReadWholeTopic(KafkaUrl(), topic_)) {
    for (const auto& [name, value] : record.headers) {
      if (name == "event-id") {
        events.emplace(value, record);
        break;
      }
    }
  }
  return events;
}

std::string ConsumerChangeRun::Missing(const std::string& mode, const std::map<std::string, KafkaRecord>& events) {
  std::set<std::string> applied;
  for (const auto& row :
       Store().Query(fmt::format("SELECT event_id FROM effects WHERE consumer = '{}'", Consumer(mode)))) {
    applied.insert(row[0]);
  }
  std::size_t missing = 0;
  std::string first;
  for (const auto& [id, record] : events) {
    if (applied.contains(id) || missing++ > 0) continue;
    first = fmt::format("{} at {}/{}", id, record.partition, record.offset);
  }
  if (missing == 0) return {};
  return fmt::format("{}: {} of {} events of the topic were not applied, first {}\n", mode, missing, events.size(),
                     first);
}

std::string ConsumerChangeRun::Complaint(const std::string& mode) {
  return Complaint(mode, ReadEvents());
}

std::string ConsumerChangeRun::Complaint(const std::string& mode, const std::map<std::string, KafkaRecord>& events) {
  if (std::string text = Missing(mode, events); !text.empty()) return text;
  std::set<std::string> seen;
  std::map<std::pair<std::string, std::string>, std::int64_t> last;  // by key and partition: keys move to new ones
  for (const auto& row : Store().Query(fmt::format(
           "SELECT event_id, key, n, part, place FROM effects WHERE consumer = '{}' ORDER BY id", Consumer(mode)))) {
    if (!seen.insert(row[0]).second) {
      return fmt::format("{}: {} number {} at {}/{} was applied twice\n", mode, row[1], row[2], row[3], row[4]);
    }
    const std::int64_t n = std::stoll(row[2]);
    auto& before = last[{row[1], row[3]}];
    if (n < before) return fmt::format("{}: {} number {} was applied after number {}\n", mode, row[1], n, before);
    before = n;
  }
  const auto parked = Store().Query(
      fmt::format("SELECT state, error_code, count(*) FROM sealane.inbox_parked WHERE consumer = '{}' GROUP BY 1, 2",
                  Consumer(mode)));
  if (!parked.empty()) return fmt::format("{}: {} are {} {}\n", mode, parked[0][2], parked[0][0], parked[0][1]);
  return {};
}

std::string ConsumerChangeRun::Verdict(std::chrono::seconds limit) {
  const std::map<std::string, KafkaRecord> events = ReadEvents();
  std::string text;
  for (const std::string& mode : options_.modes) {
    Eventually([&] { return Missing(mode, events).empty(); }, limit);
    text += Complaint(mode, events);
  }
  return text.empty() ? text : text + Logs();
}

void ConsumerChangeRun::ExpectCalm() {
  for (const auto& [mode, consumer] : consumers_) {
    std::pair<int, std::string> ready;
    EXPECT_TRUE(Eventually([&] {
      ready = ServerChangeRun::Readiness(*consumer);
      return ready.first == 200;
    })) << mode
        << ": " << ready.second << Logs();
    EXPECT_EQ(Stops(mode), std::set<std::string>{}) << mode;
  }
  StopConsumers();
  for (const std::string& mode : options_.modes) {
    const int before = Store().Count(fmt::format("effects WHERE consumer = '{}'", Consumer(mode)));
    const CommandResult result = CatchUp(mode);
    EXPECT_EQ(result.code, 0) << mode << ": " << result.out << result.err;
    EXPECT_EQ(Store().Count(fmt::format("effects WHERE consumer = '{}'", Consumer(mode))), before) << mode;
  }
}

std::string ConsumerChangeRun::Logs() const {
  std::string text;
  for (const auto& [mode, consumer] : consumers_) {
    std::istringstream lines(consumer->said());
    std::vector<std::string> some;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" info ") == std::string::npos) some.push_back(line);
    }
    const std::size_t from = some.size() > 8 ? some.size() - 8 : 0;
    for (std::size_t i = from; i < some.size(); ++i) text += fmt::format("  {}: {:.500}\n", mode, some[i]);
  }
  return text;
}

}  // namespace sealane::testing
