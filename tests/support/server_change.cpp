#include "support/server_change.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/running_relay.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr const char* kEffects =
    "CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, consumer text, key text, n bigint, event_id text)";
constexpr const char* kScript =
    "INSERT INTO effects (consumer, key, n, event_id)\n"
    "VALUES (:consumer, :key, (:payload::jsonb->>'n')::bigint, :event_id);\n";
constexpr const char* kProbes = "probes=http://127.0.0.1:";

std::string HeaderOf(const KafkaRecord& record, const std::string& name) {
  for (const auto& [key, value] : record.headers) {
    if (key == name) return value;
  }
  return {};
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// "3 of 800 events ..., first k1 number 7", or empty.
std::string Count(const std::vector<std::string>& some, std::size_t all, const std::string& what) {
  if (some.empty()) return {};
  return fmt::format("{} of {} events {}, first {}\n", some.size(), all, what, some.front());
}

}  // namespace

std::vector<std::uint64_t> ServerChangeSeeds() {
  if (const char* one = std::getenv("SEALANE_TEST_SEED")) return {std::strtoull(one, nullptr, 10)};
  const std::uint64_t count = std::getenv("SEALANE_TEST_LONG") != nullptr ? 20 : 2;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

void PlayServerChange(const std::function<void(std::uint64_t seed)>& scenario) {
  for (const std::uint64_t seed : ServerChangeSeeds()) {
    SCOPED_TRACE(fmt::format("seed {}: SEALANE_TEST_SEED={} plays it alone", seed, seed));
    scenario(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

// ---- set-up ----------------------------------------------------------------------------------------------------

ServerChangeRun::ServerChangeRun(std::uint64_t seed, const Options& options)
    : seed_(seed), options_(options), random_(seed) {
  topic_ = FreshTopic(KafkaUrl(), options.partitions);
  if (options.outbox_changes || options.inbox_changes) {
    server_ = options.archive ? ChangingPostgres::StartWithArchive() : ChangingPostgres::Start();
    PgSession(server_->Url()).Exec("CREATE DATABASE shop");
    MustRun({"migrate", "up"}, server_->Url("shop"));
    proxy_ = std::make_unique<TcpProxy>(server_->port());
  }
  if (!options.outbox_changes) outbox_ = std::make_unique<ScratchDatabase>(kMigrated);
  if (!options.inbox_changes) inbox_ = std::make_unique<ScratchDatabase>(kMigrated);
  ShopLoad::Prepare(outbox_ ? outbox_->url() : server_->Url("shop"));
  Inbox().Exec(kEffects);
  std::ofstream(place_.folder() + "/effect.sql") << kScript;
  std::ofstream file(place_.folder() + "/sealane.toml");
  file << "[broker.kafka]\n";
  for (const auto& [name, value] : options.properties) file << fmt::format("\"{}\" = \"{}\"\n", name, value);
}

ServerChangeRun::~ServerChangeRun() {
  load_.reset();
  relays_.clear();
  consumers_.clear();
  outbox_session_.reset();
  inbox_session_.reset();
}

int ServerChangeRun::Draw(int below) {
  return static_cast<int>(random_() % static_cast<std::uint64_t>(below));
}

std::string ServerChangeRun::OutboxUrl() const {
  return outbox_ ? outbox_->url() : fmt::format("postgresql://postgres@127.0.0.1:{}/shop", proxy_->port());
}

std::string ServerChangeRun::InboxUrl() const {
  return inbox_ ? inbox_->url() : fmt::format("postgresql://postgres@127.0.0.1:{}/shop", proxy_->port());
}

PgSession& ServerChangeRun::Outbox() {
  if (!outbox_session_)
    outbox_session_ = std::make_unique<PgSession>(outbox_ ? outbox_->url() : server_->Url("shop"));
  return *outbox_session_;
}

PgSession& ServerChangeRun::Inbox() {
  if (!inbox_session_) inbox_session_ = std::make_unique<PgSession>(inbox_ ? inbox_->url() : server_->Url("shop"));
  return *inbox_session_;
}

void ServerChangeRun::StartAll(int relays) {
  for (int i = 0; i < relays; ++i) StartRelay();
  for (const char* mode : kModes) StartConsumer(mode);
  load_ = std::make_unique<ShopLoad>(OutboxUrl(), topic_, seed_);
  for (const auto& relay : relays_) relay->PortAfter(kProbes);
  for (const auto& [mode, consumer] : consumers_) consumer->PortAfter(kProbes);
}

void ServerChangeRun::StartRelay() {
  const std::string name = fmt::format("relay-{}", relays_.size());
  const std::vector<std::string> command = {SEALANE_TEST_BINARY, "relay",    "--store",  OutboxUrl(),
                                            "--broker",          KafkaUrl(), "--listen", "127.0.0.1:0"};
  relays_.push_back(std::make_unique<RunningProgram>(name, command, options_.variables, place_.folder()));
}

std::vector<std::string> ServerChangeRun::ConsumeArguments(const std::string& mode) const {
  return {"consume", "--consumer", Consumer(mode), "--topic",  topic_,   "--sql", place_.folder() + "/effect.sql",
          "--store", InboxUrl(),   "--broker",     KafkaUrl(), "--mode", mode};
}

void ServerChangeRun::StartConsumer(const std::string& mode) {
  std::vector<std::string> command = ConsumeArguments(mode);
  command.insert(command.begin(), SEALANE_TEST_BINARY);
  command.insert(command.end(), {"--listen", "127.0.0.1:0", "--batch", "20"});
  consumers_[mode] =
      std::make_unique<RunningProgram>("consumer-" + mode, command, options_.variables, place_.folder());
}

void ServerChangeRun::SignalRelays(int signal) const {
  for (const auto& relay : relays_) relay->Signal(signal);
}

void ServerChangeRun::StopRelays() {
  for (const auto& relay : relays_) EXPECT_EQ(relay->Stop(), 0) << Logs();
  relays_.clear();
}

void ServerChangeRun::RestartIfEnded(const std::string& mode) {
  const std::string line = ReadFile(fmt::format("/proc/{}/stat", consumer(mode).pid()));
  const std::size_t name_end = line.rfind(')');
  const bool runs = name_end != std::string::npos && line.substr(name_end + 2, 1) != "Z";
  if (!runs) StartConsumer(mode);
}

CommandResult ServerChangeRun::CatchUp(const std::string& mode, const std::string& timeout) const {
  std::vector<std::string> arguments = ConsumeArguments(mode);
  arguments.insert(arguments.end(), {"--until", "caught-up", "--timeout", timeout});
  return RunSealane(arguments, {}, options_.variables, place_.folder());
}

void ServerChangeRun::TakeAway() {
  proxy_->Point(0, true);
}

void ServerChangeRun::ReplaceServer(ChangingPostgres::Ptr other) {
  outbox_session_.reset();
  inbox_session_.reset();
  proxy_->Point(other->port(), true);
  server_ = std::move(other);
}

CommandResult ServerChangeRun::Sealane(const std::vector<std::string>& arguments, const std::string& store) const {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--store", store});
  return RunSealane(all, {}, options_.variables, place_.folder());
}

void ServerChangeRun::MustRun(const std::vector<std::string>& arguments, const std::string& store) const {
  const CommandResult result = Sealane(arguments, store);
  EXPECT_EQ(result.code, 0) << fmt::format("sealane {}", fmt::join(arguments, " ")) << "\n"
                            << result.out << result.err;
}

// ---- what holds ------------------------------------------------------------------------------------------------

std::vector<ServerChangeRun::Sold> ServerChangeRun::ReadSold() {
  std::vector<Sold> sold;
  for (const auto& row : Outbox().Query("SELECT b.key, b.n, b.event_id, s.status FROM business b "
                                        "LEFT JOIN sealane.outbox_status s ON s.event_id = b.event_id "
                                        "AND s.route = 'main' ORDER BY b.key, b.n")) {
    if (!forgotten_.contains(row[2])) sold.push_back({row[0], std::stoll(row[1]), row[2], row[3]});
  }
  return sold;
}

std::map<std::string, ServerChangeRun::Place> ServerChangeRun::ReadFirstDeliveries() {
  std::map<std::string, Place> places;
  const auto records = ReadWholeTopic(KafkaUrl(), topic_);
  records_ = records.size();
  for (const KafkaRecord& record : records) {
    places.emplace(HeaderOf(record, "event-id"), Place{record.partition, record.offset});
  }
  return places;
}

std::map<std::string, int> ServerChangeRun::ReadEffects(const std::string& mode) {
  std::map<std::string, int> effects;
  for (const auto& row : Inbox().Query(
           fmt::format("SELECT event_id, count(*) FROM effects WHERE consumer = '{}' GROUP BY 1", Consumer(mode)))) {
    effects[row[0]] = std::stoi(row[1]);
  }
  return effects;
}

/// Reads what claims something before what it is about, so that nothing looks like a lie that only came later.
std::string ServerChangeRun::Unfinished(bool* lies) {
  std::map<std::string, std::map<std::string, int>> effects;
  const std::vector<Sold> sold = ReadSold();
  const std::map<std::string, Place> places = ReadFirstDeliveries();
  for (const char* mode : kModes) effects[mode] = ReadEffects(mode);
  survivors_ = sold.size();
  std::vector<std::string> lied;
  std::vector<std::string> missing;
  std::vector<std::string> not_shown;
  std::map<std::string, std::vector<std::string>> not_applied;
  for (const Sold& one : sold) {
    const std::string name = fmt::format("{} number {} ({}, {})", one.key, one.n, one.id, one.status);
    const bool there = places.contains(one.id);
    if (!there) missing.push_back(name);
    if (!there && one.status == "PUBLISHED") lied.push_back(name);
    if (one.status != "PUBLISHED") not_shown.push_back(name);
    for (const char* mode : kModes) {
      if (!effects[mode].contains(one.id)) not_applied[mode].push_back(name);
    }
  }
  *lies = !lied.empty();
  std::string text = Count(lied, sold.size(), "are shown as PUBLISHED and are not on the topic") +
                     Count(missing, sold.size(), "are not on the topic") +
                     Count(not_shown, sold.size(), "are not shown as PUBLISHED");
  for (const char* mode : kModes) {
    text += Count(not_applied[mode], sold.size(), fmt::format("were not applied with mode {}", mode));
  }
  return text;
}

std::string ServerChangeRun::Verdict(bool ordered) {
  const std::string unsettled = AwaitSettled();
  return unsettled.empty() ? Complaint(ordered) : unsettled;
}

std::string ServerChangeRun::AwaitSettled(seconds limit) {
  const auto end = steady_clock::now() + limit;
  while (true) {
    bool lies = false;
    std::string text = Unfinished(&lies);
    if (text.empty()) return {};
    if (lies || steady_clock::now() > end) return text + Logs();
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

std::string ServerChangeRun::Lie() {
  bool lies = false;
  const std::string text = Unfinished(&lies);
  return lies ? text : "";
}

bool ServerChangeRun::AllPublished() {
  return Outbox().Count("sealane.outbox_status WHERE route = 'main' AND status <> 'PUBLISHED'") == 0;
}

std::string ServerChangeRun::Complaint(bool ordered) {
  const std::vector<Sold> sold = ReadSold();
  std::map<std::string, Place> places = ReadFirstDeliveries();
  if (const int other = Outbox().Count("business b FULL JOIN sealane.outbox o USING (event_id) "
                                       "WHERE b.event_id IS NULL OR o.event_id IS NULL");
      other != 0) {
    return fmt::format("{} business rows and events have no counterpart", other);
  }
  std::map<std::string, Sold> by_id;
  for (const Sold& one : sold) by_id[one.id] = one;
  const Sold* before = nullptr;
  for (const Sold& one : sold) {
    if (!places.contains(one.id)) return fmt::format("{} number {} is not on the topic", one.key, one.n);
    if (before != nullptr && before->key == one.key) {
      const Place& first = places[before->id];
      const Place& second = places[one.id];
      // Where partitions were added, a key may have moved.
      if (first.partition == second.partition && first.offset > second.offset) {
        return fmt::format("{} number {} is on the topic before number {}", one.key, one.n, before->n);
      }
    }
    before = &one;
  }
  for (const char* mode : kModes) {
    std::set<std::string> applied;
    std::map<std::string, std::int64_t> last;
    for (const auto& row : Inbox().Query(
             fmt::format("SELECT event_id, key, n FROM effects WHERE consumer = '{}' ORDER BY id", Consumer(mode)))) {
      if (!applied.insert(row[0]).second)
        return fmt::format("{} number {} was applied twice ({})", row[1], row[2], mode);
      // What the surviving database does not have was lost with the old server; its numbers are given again.
      if (!by_id.contains(row[0])) continue;
      const std::int64_t n = std::stoll(row[2]);
      if (ordered && n < last[row[1]]) {
        return fmt::format("{} number {} was applied after number {} ({})", row[1], n, last[row[1]], mode);
      }
      last[row[1]] = n;
    }
    for (const Sold& one : sold) {
      if (!applied.contains(one.id)) return fmt::format("{} number {} was not applied ({})", one.key, one.n, mode);
    }
  }
  std::printf("seed %llu: %zu events survived, %zu records on the topic\n", static_cast<unsigned long long>(seed_),
              sold.size(), records_);
  return {};
}

void ServerChangeRun::Forget() {
  for (const Sold& one : ReadSold()) forgotten_[one.id] = true;
}

void ServerChangeRun::ExpectCalm() {
  for (const auto& relay : relays_) {
    const auto [status, text] = Readiness(*relay);
    EXPECT_EQ(status, 200) << text;
  }
  for (const auto& [mode, consumer] : consumers_) {
    const auto [status, text] = Readiness(*consumer);
    EXPECT_EQ(status, 200) << mode << ": " << text;
  }
  StopRelays();
  MustRun({"relay", "--broker", KafkaUrl(), "--until", "drained", "--timeout", "30s"}, OutboxUrl());
}

std::pair<int, std::string> ServerChangeRun::Readiness(const RunningProgram& program) {
  const std::string answer = HttpGet(program.PortAfter(kProbes), "/readyz");
  const std::size_t space = answer.find(' ');
  return {space == std::string::npos ? 0 : std::atoi(answer.c_str() + space), answer};
}

std::map<std::int32_t, std::int64_t> ServerChangeRun::Ends() const {
  std::map<std::int32_t, std::int64_t> ends;
  for (const KafkaRecord& record : ReadWholeTopic(KafkaUrl(), topic_)) {
    ends[record.partition] = std::max(ends[record.partition], record.offset + 1);
  }
  return ends;
}

std::int64_t ServerChangeRun::Lag(const std::string& mode) const {
  const auto committed = CommittedOffsets(KafkaUrl(), Consumer(mode), topic_, options_.partitions);
  std::int64_t lag = 0;
  for (const auto& [partition, end] : Ends())
    lag += end - (committed.contains(partition) ? committed.at(partition) : 0);
  return lag;
}

std::string ServerChangeRun::Logs() const {
  std::string text;
  const auto add = [&](const std::string& name, const RunningProgram& program) {
    std::istringstream lines(program.said());
    std::vector<std::string> some;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" info ") == std::string::npos) some.push_back(line);
    }
    const std::size_t from = some.size() > 5 ? some.size() - 5 : 0;
    for (std::size_t i = from; i < some.size(); ++i) text += fmt::format("  {}: {:.500}\n", name, some[i]);
  };
  for (std::size_t i = 0; i < relays_.size(); ++i) add(fmt::format("relay {}", i), *relays_[i]);
  for (const auto& [mode, consumer] : consumers_) add(mode, *consumer);
  return text;
}

}  // namespace sealane::testing
