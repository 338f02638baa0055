#include "demo/place.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "broker_factory.hpp"
#include "command.hpp"
#include "config/units.hpp"
#include "connect/broker_url.hpp"
#include "connect/store_url.hpp"
#include "kafka/kafka_probe.hpp"
#include "kafka/kafka_topics.hpp"
#include "serve/probe_server.hpp"
#include "store_factory.hpp"

namespace sealane::demo {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kPartitions = 3;
constexpr std::chrono::milliseconds kAdminTimeout{10'000};
constexpr std::chrono::milliseconds kProbeStep{2'000};

Error BadFolder(const std::string& folder, std::string_view why) {
  return Error(ErrorKind::kMisconfigured, "folder_not_usable",
               fmt::format("cannot work in {}: {}", EscapeForTerminal(folder), why))
      .WithHint("name a folder that you may write to, with --dir or TMPDIR")
      .WithField("--dir");
}

Status CheckUrls(const PlaceOptions& options) {
  if (options.store) {
    const auto target = ParseStoreUrl(*options.store);
    if (!target || target->kind != StoreKind::kPostgres) {
      return cli::BadUsage(
          fmt::format("--store: `{}` is not postgres://user@host/database", RedactUrl(*options.store)),
          "leave it out for an SQLite file; --dir says where that is", "--store");
    }
  }
  if (options.broker) {
    const auto target = ParseBrokerUrl(*options.broker);
    if (!target || target->kind != BrokerKind::kKafka) {
      return cli::BadUsage(fmt::format("--broker: `{}` is not kafka://host:port", RedactUrl(*options.broker)),
                           "leave it out for a journal; --dir says where that is", "--broker");
    }
  }
  return Ok();
}

// A basic string of TOML takes the escapes of JSON.
std::string Setting(std::string_view name, std::string_view value) {
  return fmt::format("{} = {}\n", name, JsonString(value));
}

}  // namespace

Error Interrupted() {
  return Error(ErrorKind::kCancelled, "interrupted", "interrupted; there is no verdict, and nothing is left running");
}

Result<std::unique_ptr<Place>> Place::Make(const PlaceOptions& options, Clock& clock, Random& random,
                                           const std::stop_token& stop) {
  SEALANE_RETURN_IF_ERROR(CheckUrls(options));
  std::unique_ptr<Place> place(new Place());
  place->complain_ = options.complain;
  place->kafka_ = options.broker.has_value();
  for (const auto& [name, value] : options.variables) {
    if (!name.starts_with("SEALANE_")) place->variables_.emplace(name, value);
  }
  const std::string run = fmt::format("sealane_demo_{:08x}", random.Below(std::uint64_t{1} << 32U));
  if (place->kafka_) place->prefix_ = run + "-";
  SEALANE_RETURN_IF_ERROR(place->ReserveAddress(options.listen, clock));
  SEALANE_RETURN_IF_ERROR(place->MakeFolder(options.folder));
  SEALANE_RETURN_IF_ERROR(place->WriteConfig(options, run));
  // Before anything is made elsewhere.
  if (place->kafka_) SEALANE_RETURN_IF_ERROR(place->AwaitKafka(clock, stop));
  SEALANE_RETURN_IF_ERROR(place->MakeTables());
  if (place->kafka_) SEALANE_RETURN_IF_ERROR(place->MakeTopics());
  if (stop.stop_requested()) return Interrupted();
  // From here on it is worth keeping; what could not be set up is not.
  place->kept_ = options.folder.has_value();
  return place;
}

Place::~Place() {
  Remove();
}

Status Place::MakeFolder(const std::optional<std::string>& wanted) {
  std::error_code failure;
  if (!wanted) {
    const auto chosen = variables_.find("TMPDIR");
    const std::string parent = chosen == variables_.end() || chosen->second.empty() ? "/tmp" : chosen->second;
    std::string name = fs::absolute(parent, failure).string() + "/sealane-demo.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return BadFolder(parent, std::strerror(errno));
    folder_ = name;
    made_folder_ = true;
  } else {
    folder_ = fs::absolute(*wanted, failure).lexically_normal().string();
    while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
    const bool there = fs::exists(folder_, failure);
    if (there && !fs::is_directory(folder_, failure)) return BadFolder(folder_, "it is not a folder");
    if (there && !fs::is_empty(folder_, failure))
      return BadFolder(folder_, failure ? failure.message() : "it is not empty");
    if (!there && !fs::create_directories(folder_, failure)) return BadFolder(folder_, failure.message());
    made_folder_ = !there;
    if (::access(folder_.c_str(), W_OK) != 0) return BadFolder(folder_, std::strerror(errno));
  }
  filled_folder_ = true;
  if (!kafka_ && !fs::create_directory(journal_folder(), failure)) return BadFolder(folder_, failure.message());
  return Ok();
}

// Whether the address can be had is told now and by us, not in the middle of the run by the relay.
Status Place::ReserveAddress(const std::string& listen, Clock& clock) {
  listen_ = listen;
  if (listen == "off") return Ok();
  auto address = ParseListenAddress(listen);
  if (!address)
    return cli::BadUsage(fmt::format("--listen: {}", address.error().message()), address.error().hint(), "--listen");
  SEALANE_ASSIGN_OR_RETURN(const auto server,
                           ProbeServer::Start({.address = *address}, clock, [] { return ServedStats{}; }));
  listen_ = server->address().ToString();
  probes_url_ = "http://" + listen_;
  return Ok();
}

Status Place::WriteConfig(const PlaceOptions& options, const std::string& run) {
  broker_url_ = options.broker.value_or(fmt::format("journal:{}/journal.db", journal_folder()));
  std::string text = "# Made by `sealane demo`.\n[store]\n";
  text += Setting("url", options.store.value_or(fmt::format("sqlite:{}/shop.db", folder_)));
  if (options.store) text += Setting("schema", run) + "create_roles = false\n";
  // One SQLite file has many writers here, and they take turns.
  text += Setting("connect_timeout", options.store ? "5s" : "30s");
  text += "\n[broker]\n" + Setting("url", broker_url_);
  text += "\n[relay]\n" + Setting("listen", listen_) + Setting("lease", cli::FormatDuration(options.lease)) +
          Setting("poll_max", "50ms");
  text += "\n[route.main]\n\n# Ships everything a second time.\n[route.again]\n";
  std::ofstream file(config_file());
  fs::permissions(config_file(), fs::perms::owner_read | fs::perms::owner_write);
  file << text << std::flush;
  if (!file) return BadFolder(folder_, "its configuration could not be written");
  SEALANE_ASSIGN_OR_RETURN(
      config_, cli::LoadConfig({.file = config_file(), .variables = variables_, .candidates = {}, .flags = {}}));
  SEALANE_ASSIGN_OR_RETURN(dialect_, Dialect::Of(store()));
  return Ok();
}

Status Place::MakeTables() {
  SEALANE_ASSIGN_OR_RETURN(const auto migrator, cli::OpenMigrator(store()));
  made_schema_ = dialect_.is_postgres();
  SEALANE_RETURN_IF_ERROR(migrator->Up());
  SEALANE_ASSIGN_OR_RETURN(const auto database, Database::Open(store()));
  SEALANE_RETURN_IF_ERROR(database->Execute(fmt::format(
      "CREATE TABLE {} (id text PRIMARY KEY, tenant text NOT NULL, cents bigint NOT NULL, changes bigint NOT NULL)",
      dialect_.Shop("orders"))));
  SEALANE_RETURN_IF_ERROR(database->Execute(
      fmt::format("CREATE TABLE {} (order_id text PRIMARY KEY, cents bigint NOT NULL)", dialect_.Shop("paid"))));
  // Nothing in these two tables forbids a second row for one event: that there is none is what is to be shown.
  for (const std::string_view table : {kPayments, kApprovals}) {
    SEALANE_RETURN_IF_ERROR(database->Execute(fmt::format(
        "CREATE TABLE {} (place {}, event_id text NOT NULL, order_id text NOT NULL, version bigint NOT NULL, "
        "cents bigint NOT NULL, decision text NOT NULL)",
        dialect_.Shop(table), dialect_.Counter())));
  }
  return Ok();
}

// Admin requests cannot be called back, so a Kafka that does not answer is found out in short steps.
Status Place::AwaitKafka(Clock& clock, const std::stop_token& stop) const {
  const cli::Settings& broker = *config_.FindBroker(cli::kDefaultName);
  const BootTime deadline = clock.SinceBoot() + kAdminTimeout;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const BrokerReport report, ProbeKafka(cli::KafkaOptionsOf(broker), kProbeStep, clock));
    if (stop.stop_requested()) return Interrupted();
    if (!report.problem) return Ok();
    if (clock.SinceBoot() >= deadline) return *report.problem;
  }
}

Status Place::MakeTopics() {
  const cli::Settings& broker = *config_.FindBroker(cli::kDefaultName);
  made_topics_ = true;
  return CreateKafkaTopics(cli::KafkaOptionsOf(broker), {Named(kOrders), Named(kPayments)}, kPartitions,
                           kAdminTimeout);
}

void Place::Remove() {
  if (kept_) return;
  const auto note = [this](std::string_view what, const std::string& why) {
    complain_(fmt::format("the demo could not remove {} of its own: {}", what, why));
  };
  if (made_topics_) {
    const cli::Settings& broker = *config_.FindBroker(cli::kDefaultName);
    const Status gone =
        DeleteKafkaTopics(cli::KafkaOptionsOf(broker), {Named(kOrders), Named(kPayments)}, kAdminTimeout);
    if (!gone) note(fmt::format("the topics {}*", prefix_), gone.error().ToString());
  }
  if (made_schema_) {
    if (const Status gone = DropSchema(); !gone) note("the schema " + dialect_.schema(), gone.error().ToString());
  }
  std::error_code failure;
  if (made_folder_) {
    fs::remove_all(folder_, failure);
  } else if (filled_folder_) {
    for (const auto& entry : fs::directory_iterator(folder_, failure)) {
      if (!failure) fs::remove_all(entry.path(), failure);
    }
  }
  if (failure) note("the files in " + EscapeForTerminal(folder_), failure.message());
}

std::vector<std::string> Place::RemovalCommands() const {
  std::vector<std::string> commands;
  if (made_schema_) {
    commands.push_back(fmt::format("psql '{}' -c 'drop schema {} cascade'",
                                   EscapeForTerminal(RedactUrl(store().Text(cli::Key::kStoreUrl))),
                                   dialect_.schema()));
  }
  if (made_topics_) {
    const auto target = ParseBrokerUrl(broker_url_);
    commands.push_back(fmt::format("kafka-topics.sh --delete --topic '{}.*' --bootstrap-server {}", prefix_,
                                   target ? EscapeForTerminal(target->location) : "HOST:PORT"));
  }
  return commands;
}

Status Place::DropSchema() const {
  SEALANE_ASSIGN_OR_RETURN(const auto database, Database::Open(store()));
  // Or else the server lists everything that goes with it.
  SEALANE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  SEALANE_RETURN_IF_ERROR(database->Execute("SET LOCAL client_min_messages = warning"));
  SEALANE_RETURN_IF_ERROR(database->Execute(fmt::format("DROP SCHEMA IF EXISTS \"{}\" CASCADE", dialect_.schema())));
  return database->Execute("COMMIT");
}

std::string Describe(const PlaceOptions& options) {
  return fmt::format("{} and {}", options.store ? "PostgreSQL" : "SQLite", options.broker ? "Kafka" : "a journal");
}

}  // namespace sealane::demo
